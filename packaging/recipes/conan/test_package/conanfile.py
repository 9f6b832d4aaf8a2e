"""Compiles a program with the package, and runs it."""
import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.layout import basic_layout


class Try(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "PkgConfigDeps", "VirtualRunEnv"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        basic_layout(self)

    def build(self):
        program = os.path.join(self.source_folder, "version.c")
        self.run(f"cc -Wall -Werror '{program}' -o version $(PKG_CONFIG_PATH='{self.generators_folder}' pkg-config --cflags --libs dlock)")

    def test(self):
        if can_run(self):
            self.run(os.path.join(self.build_folder, "version"), env="conanrun")
