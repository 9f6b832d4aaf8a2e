"""libdlock for Conan 2: conan create packaging/recipes/conan. --options="libdlock/*:system=True" takes hiredis, OpenSSL, nghttp2 and
protobuf-c of the system, not of Conan's index.
"""
import os

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.files import copy
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class Libdlock(ConanFile):
    name = "libdlock"
    version = "0.1.0"
    package_type = "shared-library"
    description = "Distributed locks on Redis, etcd and ZooKeeper"
    license = "MIT"
    homepage = url = "https://github.com/libdlock/libdlock"
    topics = ("lock", "redis", "etcd", "zookeeper")
    settings = "os", "arch", "compiler", "build_type"
    options = {"tls": [True, False], "etcd": [True, False], "system": [True, False]}
    default_options = {"tls": True, "etcd": True, "system": False}

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("libdlock runs on Linux")

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def requirements(self):
        if self.options.system:
            return
        self.requires("hiredis/1.2.0")
        if self.options.tls:
            self.requires("openssl/[>=3 <4]")
        if self.options.etcd:
            self.requires("libnghttp2/1.61.0")
            self.requires("protobuf-c/1.5.0")

    def build_requirements(self):
        if self.options.system:
            return
        self.tool_requires("meson/[>=1.2 <2]")
        if self.options.etcd:
            self.tool_requires("protobuf-c/1.5.0")

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "..", "..", "..")
        for pattern in ("meson.build", "meson_options.txt", "LICENSE", "abi/*", "src/*", "pkgconfig/*", "docs/man/*"):
            copy(self, pattern, src=root, dst=self.export_sources_folder, excludes="*/__pycache__/*")

    def layout(self):
        basic_layout(self)

    def generate(self):
        if not self.options.system:
            PkgConfigDeps(self).generate()
        toolchain = MesonToolchain(self)
        for name in ("tests", "demo", "command"):
            toolchain.project_options[name] = "false"
        toolchain.project_options["man"] = "disabled"
        toolchain.project_options["tls"] = "enabled" if self.options.tls else "disabled"
        toolchain.project_options["etcd"] = "enabled" if self.options.etcd else "disabled"
        toolchain.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        Meson(self).install()

    def package_info(self):
        self.cpp_info.libs = ["dlock"]
        self.cpp_info.set_property("pkg_config_name", "dlock")
