"""What this machine has: every notebook prints it first."""

import importlib.metadata
import platform


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def gpu():
    """The first CUDA GPU as (name, (major, minor)), or None.

    Asks the driver through torch; without torch there is no GPU for us.
    """
    try:
        import torch
    except ModuleNotFoundError:
        return None
    if not torch.cuda.is_available():
        return None
    return (torch.cuda.get_device_name(),
            torch.cuda.get_device_capability())


def report():
    """Print the versions in use, and the GPU or what its absence means."""
    print(f"lintut {_version('lintut') or 'not installed'} "
          f"on Python {platform.python_version()}")
    for line in (("numpy", "torch", "triton"), ("plotly", "anywidget")):
        print(" · ".join(f"{package} {_version(package) or 'missing'}"
                         for package in line))
    device = gpu()
    if device is None:
        print("no GPU: all of this runs on the CPU, and where\n"
              "a GPU is needed, recorded results are shown")
    else:
        name, (major, minor) = device
        print(f"GPU: {name}, compute capability {major}.{minor}")
        print(f"lintut.kernels takes {_path(major, minor)}")


def _path(*capability):
    """Which path the kernels take on such a GPU, and why."""
    import torch
    from lintut.kernels import explain
    from lintut.kernels._backend import pretend
    with pretend(*capability):
        return explain(torch.zeros(1, 1, 1, 64))
