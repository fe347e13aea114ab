package build

import (
	_ "embed"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// version is set by the linker; see the package documentation.
var version string

// sourceVersion is the version of the sources, without the "v" of tags.
//
//go:embed VERSION
var sourceVersion string

// SourceVersion is the version of the sources, such as 0.1.0.
func SourceVersion() string { return strings.TrimSpace(sourceVersion) }

// Version returns the version set by the linker. If there is none, it returns the version that the
// toolchain recorded for a tag. If the commit has no tag, it returns a development version such as
// v0.1.0-dev.g0123456789ab.
func Version() string {
	if version != "" {
		return version
	}
	return recordedVersion()
}

var recordedVersion = sync.OnceValue(func() string {
	by := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		by = info.Main.Version
	}
	return versionName(by, Revision())
})

// versionName returns the recorded version of a tag, or the version of a development build. If
// there is no tag, the toolchain records v0.0.0 with a time and the commit.
func versionName(recorded, revision string) string {
	if strings.HasPrefix(recorded, "v") && !strings.HasPrefix(recorded, "v0.0.0-") {
		return recorded
	}
	made := "v" + SourceVersion() + "-dev"
	if revision != "" {
		made += ".g" + revision[:min(len(revision), 12)]
	}
	return made
}

// Revision returns the commit that the toolchain recorded, or "".
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

// Description identifies a build of the program.
type Description struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// Describe returns the content of VersionLine as separate fields.
func Describe() Description {
	return Description{Version(), Revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// VersionLine returns the version, the revision, the toolchain, and the system for which the
// program was built.
func VersionLine() string {
	d := Describe()
	words := []string{d.Version, d.Revision, d.Go, d.Platform}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
