"""For every test of the repository, notebooks included."""


def pytest_collectstart(collector):
    """nbval compares plotly's JSON, whose arrays are base64 floats, to the
    last bit.  Those differ between machines; the numbers that matter are
    printed."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("application/vnd.plotly.v1+json",)
