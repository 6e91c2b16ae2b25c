"""For every test of the repository, notebooks included."""

pytest_plugins = ["lintut.check.plugin"]
