"""Fleets of devices: what work costs in seconds and joules, and who is there when.

Every draw lives at an address, so nothing here has state and a million devices take no memory.
"""

from paceline.system.availability import (
    AlwaysOn,
    Availability,
    Combined,
    Dropouts,
    Leave,
    Vanishing,
    Windows,
)
from paceline.system.compute import Compute, FlopTimes, LawTimes, MeasuredTimes
from paceline.system.cost import FREE, Cost
from paceline.system.failures import Failures, parse_failures
from paceline.system.fleet import Fleet, FleetSettings, build_fleet
from paceline.system.hours import Schedule
from paceline.system.laws import (
    Constant,
    Discrete,
    Exponential,
    Gaussian,
    Law,
    LogNormal,
    Uniform,
    parse_law,
)
from paceline.system.links import FreeLinks, LinkPower, Links, RateLinks, TraceLinks
from paceline.system.network import Backbone, Network, Rate, Route, Sharing, parse_backbone, parse_sharing
from paceline.system.server import ConstantServer, FlopServer, FreeServer, ServerCosts, UndefinedServer
from paceline.system.traces import Recording, Trace, read_traces

__all__ = [
    "Cost",
    "FREE",
    "Law",
    "Constant",
    "Uniform",
    "Exponential",
    "Gaussian",
    "Discrete",
    "LogNormal",
    "parse_law",
    "Compute",
    "LawTimes",
    "FlopTimes",
    "MeasuredTimes",
    "Links",
    "LinkPower",
    "FreeLinks",
    "RateLinks",
    "TraceLinks",
    "Trace",
    "Recording",
    "read_traces",
    "Network",
    "Route",
    "Rate",
    "Sharing",
    "Backbone",
    "parse_sharing",
    "parse_backbone",
    "Availability",
    "Leave",
    "AlwaysOn",
    "Dropouts",
    "Vanishing",
    "Windows",
    "Schedule",
    "Combined",
    "ServerCosts",
    "UndefinedServer",
    "FreeServer",
    "ConstantServer",
    "FlopServer",
    "Failures",
    "parse_failures",
    "Fleet",
    "FleetSettings",
    "build_fleet",
]
