"""The 2,000 schedules are for whoever asks for slow tests; 200 of them are in every run of the suite."""


def pytest_collection_modifyitems(config, items):
    if "slow" in config.option.markexpr:
        return
    many = [item for item in items if getattr(item, "originalname", "") == "test_many_schedules"]
    if many:
        config.hook.pytest_deselected(items=many)
        items[:] = [item for item in items if item not in many]
