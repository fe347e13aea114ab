package command

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"penstock/config"
	"penstock/proxy/operate/admin"
	"penstock/upstreams/engine"
)

// CompletionValues prints names of one kind for the scripts that Completion generates. If the names
// are not available quickly, it prints nothing.
type CompletionValues struct {
	Kind string   `arg:"" enum:"upstreams,models,words" help:"What is named: ${enum}."`
	Line []string `arg:"" optional:"" help:"The words of the line before the one to complete."`
}

// completionPatience is the maximum time that a user who has pressed Tab has to wait.
const completionPatience = 300 * time.Millisecond

// Run prints one name per line.
func (c *CompletionValues) Run() error {
	var names []string
	switch c.Kind {
	case "words":
		names = explainable()
	default:
		names = c.known()
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if typable(name) {
			fmt.Fprintln(os.Stdout, name)
		}
	}
	return nil
}

// known returns the names from the running edge or, if the edge does not answer, from the
// configuration.
func (c *CompletionValues) known() []string {
	edge := admin.Edge{
		Admin: c.given("http://127.0.0.1:9090", "PENSTOCK_ADMIN", "--admin"),
		Token: c.given("", "PENSTOCK_ADMIN_TOKEN", "--token"), CACert: c.given("", "PENSTOCK_ADMIN_CACERT", "--cacert"),
	}
	if n, err := admin.AskNames(edge, completionPatience); err == nil {
		if c.Kind == "models" {
			return n.Models
		}
		return n.Upstreams
	}
	file := c.given("", "PENSTOCK_CONFIG", "--config", "-c")
	if file == "" {
		return nil
	}
	f, _ := config.LoadValid(file, engine.Known())
	if f == nil {
		return nil
	}
	var names []string
	if c.Kind == "models" {
		for i := range f.Models {
			names = append(names, f.Models[i].ID)
		}
		return names
	}
	for i := range f.Upstreams {
		names = append(names, f.Upstreams[i].Name)
		for _, tag := range f.Upstreams[i].Tags {
			names = append(names, "tag:"+tag)
		}
	}
	return names
}

// given returns the value of a flag on the command line. If the flag is missing, it returns the
// value of the environment variable or, if that is unset, usual.
func (c *CompletionValues) given(usual, variable string, flags ...string) string {
	for i, word := range c.Line {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case !slices.Contains(flags, name):
		case joined && value != "":
			return value
		case i+1 < len(c.Line):
			if value = c.Line[i+1]; value != "=" {
				return value
			}
			if i+2 < len(c.Line) { // bash splits the line at =
				return c.Line[i+2]
			}
		}
	}
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return usual
}

func explainable() (words []string) {
	for _, row := range references() {
		words = append(words, row.name)
		if row.isCode() {
			words = append(words, statuses(row)...)
		}
		for i, r := range row.name {
			if r == '.' { // the part before a dot is the name of a group of settings
				words = append(words, row.name[:i])
			}
		}
	}
	return words
}

// typable reports whether a name can be typed on a command line without quotes. Engines choose the
// ids of their models, so an id may contain characters that are special in a shell.
func typable(name string) bool {
	return name != "" && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@+-", r))
	})
}
