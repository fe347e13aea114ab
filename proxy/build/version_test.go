package build

import (
	"os"
	"regexp"
	"testing"
)

func TestNamed(t *testing.T) {
	development := "v" + SourceVersion() + "-dev"
	for _, c := range []struct{ recorded, revision, want string }{
		{"v9.8.7", "0123456789abcdef", "v9.8.7"},
		{"v9.8.8-0.20261128191347-abcdef012345", "abcdef0123456789", "v9.8.8-0.20261128191347-abcdef012345"},
		{"v0.0.0-20261128191347-abcdef012345", "abcdef0123456789", development + ".gabcdef012345"},
		{"(devel)", "abc", development + ".gabc"},
		{"", "", development},
	} {
		if got := versionName(c.recorded, c.revision); got != c.want {
			t.Errorf("%q of %q is %q, want %q", c.recorded, c.revision, got, c.want)
		}
	}
}

// TestOneNumber checks that the changelog, the manifests and the chart have the version of the
// sources.
func TestOneNumber(t *testing.T) {
	number := regexp.QuoteMeta(SourceVersion())
	for _, c := range []struct{ file, line string }{
		{".github/CHANGELOG.md", `(?m)^## ` + number + `(,|$)`},
		{".deploy/kubernetes.yaml", `image: penstock:v` + number + `\n`},
		{".deploy/helm/Chart.yaml", `(?m)^version: ` + number + `( |$)`},
		{".deploy/helm/Chart.yaml", `(?m)^appVersion: ` + number + `( |$)`},
	} {
		text, err := os.ReadFile("../../" + c.file)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(c.line).Match(text) {
			t.Errorf("%s has no line %s: proxy/build/VERSION says %s", c.file, c.line, SourceVersion())
		}
	}
}
