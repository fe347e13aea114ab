package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestLintRules checks that each rule in .golangci.yml that names files or packages matches at
// least one of them. Otherwise, a rule for a directory that has moved would remain without effect.
func TestLintRules(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						Files []string
						Deny  []struct{ Pkg string }
					}
				}
				Exhaustive struct {
					IgnoreTypes string `yaml:"ignore-types"`
				}
			}
			Exclusions struct {
				Rules []struct{ Path string }
			}
		}
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var files []string
	folders := map[string]bool{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch name = filepath.ToSlash(name); {
		case d.IsDir() && name != "." && name != ".ci" && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			folders[name] = true
		case strings.HasSuffix(name, ".go"):
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	finds := func(pattern *regexp.Regexp) bool {
		for _, f := range files {
			if pattern.MatchString(f) {
				return true
			}
		}
		return false
	}
	glob := strings.NewReplacer(".", `\.`, "**/", `(.*/)?`, "**", `.*`, "*", `[^/]*`)
	rules := file.Linters.Settings.Depguard.Rules
	if len(rules) < 10 || len(file.Linters.Exclusions.Rules) < 5 {
		t.Fatalf("%d rules and %d exclusions were read", len(rules), len(file.Linters.Exclusions.Rules))
	}
	for name, rule := range rules {
		for _, f := range rule.Files {
			pattern := strings.TrimPrefix(f, "!")
			if !strings.HasPrefix(pattern, "$") && !finds(regexp.MustCompile("^"+glob.Replace(pattern)+"$")) {
				t.Errorf("rule %s: no file is %s", name, f)
			}
		}
		for _, deny := range rule.Deny {
			if folder, ours := strings.CutPrefix(strings.TrimSuffix(deny.Pkg, "$"), module+"/"); ours && !folders[folder] {
				t.Errorf("rule %s: there is no package %s", name, deny.Pkg)
			}
		}
	}
	for _, rule := range file.Linters.Exclusions.Rules {
		if rule.Path != "" && !finds(regexp.MustCompile(rule.Path)) {
			t.Errorf("exclusion: no file is %s", rule.Path)
		}
	}
	for _, path := range regexp.MustCompile(module+`/([\w/]+)`).FindAllStringSubmatch(file.Linters.Settings.Exhaustive.IgnoreTypes, -1) {
		if !folders[path[1]] {
			t.Errorf("exhaustive: there is no package %s", path[1])
		}
	}
}
