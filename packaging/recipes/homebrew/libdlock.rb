# Untested: Homebrew could not be had, and libdlock runs on Linux only so far. Its syntax is checked by ruby -c.
class Libdlock < Formula
  desc "Distributed locks on Redis, etcd and ZooKeeper"
  homepage "https://github.com/libdlock/libdlock"
  url "https://github.com/libdlock/libdlock/releases/download/v0.1.0/libdlock-0.1.0.tar.xz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"

  depends_on "meson" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "hiredis"
  depends_on "libnghttp2"
  depends_on :linux
  depends_on "openssl@3"
  depends_on "protobuf-c"

  def install
    system "meson", "setup", "out", "-Dtests=false", "-Ddemo=false", "-Dman=disabled", "-Dtls=enabled", "-Detcd=enabled", *std_meson_args
    system "meson", "compile", "-C", "out", "--verbose"
    system "meson", "install", "-C", "out"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/dlock version")
  end
end
