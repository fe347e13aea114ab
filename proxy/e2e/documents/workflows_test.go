package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/goccy/go-yaml"
)

// script matches a repository file that a workflow runs.
var script = regexp.MustCompile(`(?:^|\s)(\.ci/\w+)`)

// TestWorkflows checks that the scripts in the workflows exist, and that the shell can parse them.
// (.ci/full lints them.)
func TestWorkflows(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(repoRoot, ".github/workflows/*.yml"))
	if err != nil || len(paths) != 3 {
		t.Fatalf("workflows: %v, %v", paths, err)
	}
	for _, path := range paths {
		var w struct {
			Jobs map[string]struct {
				Steps []struct{ Run, Uses string }
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		ran := 0
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Run == "" {
					continue
				}
				ran++
				if out, err := exec.Command("bash", "-n", "-c", step.Run).CombinedOutput(); err != nil {
					t.Errorf("%s: %q: %v\n%s", path, step.Run, err, out)
				}
				for _, m := range script.FindAllStringSubmatch(step.Run, -1) {
					if info, err := os.Stat(filepath.Join(repoRoot, m[1])); err != nil || info.Mode()&0o100 == 0 {
						t.Errorf("%s runs %s, which is no program here: %v", path, m[1], err)
					}
				}
			}
		}
		if ran == 0 {
			t.Errorf("%s runs nothing", path)
		}
	}
}
