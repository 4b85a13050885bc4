"""A measured fleet as a TOML file that ``fleet.file`` reads."""

from __future__ import annotations

from paceline.plans.fleet import Device, Measured


def as_toml(measured: Measured, origin: str) -> str:
    """The file's text; ``origin`` says where it was measured."""
    head = [
        f"# Measured in {' '.join(origin.split())} by `paceline plan fleet`.",
        "# seconds: the visits that a device finished, one after the other, each with what transfers beside it took",
        "# more than usual; a simulation goes through them again and again, but for the first. They belong to that",
        "# run's model, data and recipe.",
    ]
    if measured.linked and measured.one_size:
        head.append("# All transfers had one size, so that all their time is put down to the byte rate.")
    if measured.server is not None:
        head += ["", "[server]", f"seconds = {measured.server:.6g}"]
    timed = any(device.availability != "always" for device in measured.devices)
    tables = [_table(device, linked=measured.linked, timed=timed) for device in measured.devices]
    return "\n".join([*head, *(line for table in tables for line in table), ""])


def _table(device: Device, *, linked: bool, timed: bool) -> list[str]:
    lines = ["", "[[device]]", f'device = "client {device.number}"{_remark(device)}']
    lines.append(f"seconds = [{', '.join(f'{seconds:.6g}' for seconds in device.seconds)}]")
    if linked:
        link = device.link
        lines += [
            f"up_mbps = {link.up_mbps:.6g}",
            f"down_mbps = {link.down_mbps:.6g}",
            f"latency = {link.latency:.6g}",
        ]
    if timed:
        lines.append(f'availability = "{device.availability}"')
    return lines


def _remark(device: Device) -> str:
    return "  # finished no visit; the seconds are other devices'" if device.borrowed else ""
