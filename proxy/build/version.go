package build

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// version is set by the linker; see the package's documentation.
var version string

// Version is the version that the build named, else the one that the toolchain recorded, else
// "(devel)".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Revision is the commit that the toolchain recorded; empty if it recorded none.
func Revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}

// Line is the version, the revision, and the toolchain and system that the binary was built with
// and for.
func Line() string {
	words := []string{Version(), Revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
