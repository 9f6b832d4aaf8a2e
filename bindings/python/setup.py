"""What pyproject.toml cannot say: the C library goes into the wheel. README.md says how.

DLOCK_BUNDLE=path: that file. DLOCK_BUNDLE= (empty): none. Otherwise it is compiled from the folder libdlock, which only the source
distribution has (packaging/bundle/make.py writes it).
"""
import concurrent.futures
import os
import pathlib
import shlex
import shutil
import subprocess
import sysconfig
import tempfile

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1, which needs wheel, but only to make a wheel
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        from setuptools import Command as bdist_wheel

SONAME = "libdlock.so.1"
sources = pathlib.Path(__file__).resolve().with_name("libdlock")
bundle = os.environ.get("DLOCK_BUNDLE")
if bundle and not pathlib.Path(bundle).is_file():
    raise SystemExit(f"DLOCK_BUNDLE={bundle}: there is no such file.")
platform = os.environ.get("DLOCK_PLATFORM") or sysconfig.get_platform()  # of the library in the wheel
inside = bool(bundle or (bundle is None and sources.is_dir()))


def run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=sources, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(command)}\n{done.stdout}\nlibdlock was not compiled. DLOCK_BUNDLE= leaves it out.")


def marks(compiler: list[str]) -> list[str]:
    """What marks targets of indirect calls, for processors that check them. A compiler knows one of these, or none."""
    known = []
    for flag in ("-fcf-protection=full", "-mbranch-protection=standard"):
        with tempfile.TemporaryDirectory() as folder:
            command = [*compiler, "-Werror", flag, "-x", "c", "-c", "-o", f"{folder}/known.o", "-"]
            known += [flag] if subprocess.run(command, input=b"int known;", stderr=subprocess.DEVNULL, check=False).returncode == 0 else []
    return known


def compile_library(to: pathlib.Path) -> None:
    """Compile the bundle, as its Makefile does."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    compiler += ["-O2", *shlex.split(os.environ.get("CFLAGS", ""))]
    compiler += marks(compiler)
    flags, names = (sources / "flags.txt").read_text().split(), (sources / "sources.txt").read_text().split()
    link = ["-shared", f"-Wl,-soname,{SONAME}", "-Wl,--version-script=dlock.map", "-Wl,-z,nodelete", "-Wl,-z,relro", "-Wl,-z,now",
            "-Wl,-z,noexecstack", "-Wl,-z,defs"]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [f"{folder}/{number}.o" for number in range(len(names))]
        list(pool.map(run, [[*compiler, *flags, "-c", name, "-o", made] for name, made in zip(names, objects)]))
        run([*compiler, *link, "-o", str(to), *objects, "-pthread", "-ldl"])


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not getattr(self, "editable_mode", False):  # else nothing is copied
            copy = pathlib.Path(self.build_lib, "dlock", SONAME).absolute()
            copy.unlink(missing_ok=True)  # of an earlier build in the same folder
            if bundle:
                shutil.copyfile(bundle, copy)
            elif inside:
                compile_library(copy)


class Package(Distribution):
    def has_ext_modules(self) -> bool:  # there are none, but a library is as bound to a platform as they are
        return inside


class Wheel(bdist_wheel):
    """One wheel for every Python, but with a library only for one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", platform.replace("-", "_").replace(".", "_") if inside else "any")


licenses = ["LICENSE", *sorted(f"libdlock/licenses/{path.name}" for path in sources.glob("licenses/*.txt"))]
setup(license="MIT", license_files=licenses, distclass=Package, cmdclass={"build_py": Build, "bdist_wheel": Wheel})
