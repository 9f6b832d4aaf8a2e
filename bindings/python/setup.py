"""What pyproject.toml cannot say: DLOCK_BUNDLE=path puts a private copy of libdlock.so.1 into the wheel. See README.md."""
import os
import pathlib
import shutil
import sysconfig

from setuptools import setup
from setuptools.command.build_py import build_py

bundle = os.environ.get("DLOCK_BUNDLE")
if bundle and not pathlib.Path(bundle).is_file():
    raise SystemExit(f"DLOCK_BUNDLE={bundle}: there is no such file.")


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not getattr(self, "editable_mode", False):  # else nothing is copied
            copy = pathlib.Path(self.build_lib, "dlock", "libdlock.so.1")
            copy.unlink(missing_ok=True)  # of an earlier build in the same folder
            if bundle:
                shutil.copyfile(bundle, copy)


# The package has no extension modules: one wheel for every Python, but with a library only for one platform.
options = {"bdist_wheel": {"plat_name": sysconfig.get_platform()}} if bundle else {}
setup(license="MIT", cmdclass={"build_py": Build}, options=options)
