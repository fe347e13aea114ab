package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"text/template"
	"time"
)

// writeSBOM writes a bill of materials in CycloneDX 1.6, from the module list embedded in the
// program.
func (r *release) writeSBOM() error {
	info, err := buildinfo.ReadFile(r.programPath("linux/amd64"))
	if err != nil {
		return err
	}
	text, err := buildSBOM(info, r.version, r.time)
	if err != nil {
		return err
	}
	return r.writeFile("penstock.cdx.json", text)
}

type sbomComponent struct {
	Type    string              `json:"type"`
	Ref     string              `json:"bom-ref"`
	Name    string              `json:"name"`
	Version string              `json:"version"`
	PURL    string              `json:"purl"`
	Hashes  []map[string]string `json:"hashes,omitempty"`
}

func newComponent(kind, name, version, sum string) sbomComponent {
	purl := "pkg:golang/" + name + "@" + version
	c := sbomComponent{Type: kind, Ref: purl, Name: name, Version: version, PURL: purl}
	if hash, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:")); err == nil && len(hash) == 32 {
		c.Hashes = []map[string]string{{"alg": "SHA-256", "content": hex.EncodeToString(hash)}}
	}
	return c
}

func buildSBOM(info *debug.BuildInfo, version string, at time.Time) ([]byte, error) {
	components := []sbomComponent{newComponent("library", "std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			components = append(components, newComponent("library", m.Path, m.Version, m.Replace.Sum))
			continue
		}
		components = append(components, newComponent("library", m.Path, m.Version, m.Sum))
	}
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"timestamp": at.Format(time.RFC3339), "component": newComponent("application", info.Main.Path, version, "")},
		"components": components,
	}, "", "  ")
}

var formulaTemplate = template.Must(template.New("").Parse(`# Homebrew: the address and the licence are {{.Licence}}.
class Penstock < Formula
  desc "{{.Summary}}"
  homepage "{{.Address}}"
  version "{{.Version}}"
  license :cannot_represent # {{.Licence}}
{{range .Systems}}
  on_{{.System}} do
    on_{{.Arch}} do
      url "{{$.Address}}/releases/download/{{$.Version}}/{{.File}}"
      sha256 "{{.Sum}}"
    end
  end
{{end}}
  def install
    bin.install Dir["penstock-*"].first => "penstock"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/penstock version")
  end
end
`))

func (r *release) writeFormula() error {
	type system struct{ System, Arch, File, Sum string }
	var list []system
	for _, s := range []struct{ name, system, arch string }{
		{"darwin/amd64", "macos", "intel"}, {"darwin/arm64", "macos", "arm"}, {"linux/amd64", "linux", "intel"}, {"linux/arm64", "linux", "arm"},
	} {
		sum, err := r.sha256Hex(r.programPath(s.name))
		if err != nil {
			return err
		}
		list = append(list, system{s.system, s.arch, "penstock-" + strings.ReplaceAll(s.name, "/", "-"), sum})
	}
	var b strings.Builder
	err := formulaTemplate.Execute(&b, map[string]any{"Summary": packageSummary, "Address": projectURL, "Licence": licence, "Version": r.version, "Systems": list})
	if err != nil {
		return fmt.Errorf("formula: %w", err)
	}
	return r.writeFile("penstock.rb", []byte(b.String()))
}
