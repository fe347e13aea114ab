package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// unprinted are the commands without results for programs, and why.
var unprinted = map[string]string{
	"init":              "writes a configuration",
	"serve":             "runs until it is ended; its log has log.format",
	"batch":             "writes the file of answers, in the form of OpenAI's Batch API",
	"bench report":      "draws a page of a file that is JSON",
	"sim":               "runs until it is ended",
	"completion":        "prints a script",
	"completion-values": "is what that script calls",
	"support":           "writes a bundle",
}

// TestFormat holds that every command which prints results has --format json, with a help that says
// what the JSON holds, and that no command has another flag for it.
func TestFormat(t *testing.T) {
	t.Parallel()
	var commands []*kong.Node
	var walk func(*kong.Node)
	walk = func(n *kong.Node) {
		if len(n.Children) == 0 {
			commands = append(commands, n)
		}
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(grammar(new(cli)).Model.Node)
	if len(commands) < 30 {
		t.Fatalf("the grammar has %d commands", len(commands))
	}
	left := len(unprinted)
	for _, n := range commands {
		name := strings.TrimPrefix(n.FullPath(), "penstock ")
		format := ""
		for _, f := range n.Flags {
			switch f.Name {
			case "json":
				t.Errorf("%s has --json: its output has --format", name)
			case "format":
				if format = f.Help; !slices.Contains(f.EnumSlice(), "json") {
					t.Errorf("%s --format is one of %q, without json", name, f.EnumSlice())
				}
			}
		}
		switch why := unprinted[name]; {
		case why != "":
			if left--; format != "" {
				t.Errorf("%s has --format, and is listed as a command that %s", name, why)
			}
		case format == "":
			t.Errorf("%s has no --format", name)
		case name != "openapi" && !strings.Contains(format, "json is "): // a standard of its own
			t.Errorf("the help of %s --format does not say what its JSON holds: %q", name, format)
		}
	}
	if left != 0 {
		t.Errorf("%d of the listed commands are not there", left)
	}
}
