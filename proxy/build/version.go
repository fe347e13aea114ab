package build

import (
	_ "embed"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// version is set by the linker; see the package's documentation.
var version string

// number is the version of the sources, without the "v" of tags.
//
//go:embed VERSION
var number string

// Number is the version of the sources, such as 0.1.0.
func Number() string { return strings.TrimSpace(number) }

// Version is the version that the build was given, or else the one that the toolchain recorded for
// a tag. Without both, the build is that of a commit between versions.
func Version() string {
	if version != "" {
		return version
	}
	recorded := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		recorded = info.Main.Version
	}
	return named(recorded, Revision())
}

// named returns the recorded version of a tag, or that of a development build. Without a tag the
// toolchain makes up v0.0.0 with a time and the commit.
func named(recorded, revision string) string {
	if strings.HasPrefix(recorded, "v") && !strings.HasPrefix(recorded, "v0.0.0-") {
		return recorded
	}
	made := "v" + Number() + "-dev"
	if revision != "" {
		made += ".g" + revision[:min(len(revision), 12)]
	}
	return made
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

// Description says which build a program is.
type Description struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// Describe returns what Line says, in parts.
func Describe() Description {
	return Description{Version(), Revision(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}

// Line is the version, the revision, and the toolchain and system that the binary was built with
// and for.
func Line() string {
	d := Describe()
	words := []string{d.Version, d.Revision, d.Go, d.Platform}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
