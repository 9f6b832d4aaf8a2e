# Untested: vcpkg could not be had. REF and SHA512 are those of a release; ./dev release says the checksum of its source archive.
vcpkg_from_github(
    OUT_SOURCE_PATH SOURCE_PATH
    REPO libdlock/libdlock
    REF "v${VERSION}"
    SHA512 0
    HEAD_REF main
)

set(options -Dtests=false -Ddemo=false -Dcommand=false -Dman=disabled)
if("tls" IN_LIST FEATURES)
    list(APPEND options -Dtls=enabled)
else()
    list(APPEND options -Dtls=disabled)
endif()
if("etcd" IN_LIST FEATURES)
    list(APPEND options -Detcd=enabled)
else()
    list(APPEND options -Detcd=disabled)
endif()

# The library is a shared one in any case: bindings and programs must agree on one copy in a process.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)
vcpkg_configure_meson(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${options})
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_copy_pdbs()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
