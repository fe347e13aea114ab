package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion prints a script that completes command lines.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`
}

// Help is printed below the flags.
func (c *Completion) Help() string {
	return "The script completes commands, flags and the values that flags may have. It goes into the shell's start file: " +
		"\"source <(penstock completion bash)\", in zsh, after compinit, \"source <(penstock completion zsh)\", " +
		"in fish \"penstock completion fish | source\"."
}

// Run prints the script, which is made from the grammar.
func (c *Completion) Run(ctx *kong.Context) error {
	var b strings.Builder
	places := completions(ctx.Model.Node)
	switch c.Shell {
	case "bash":
		writeShell(&b, places, bashFrame)
	case "zsh":
		writeShell(&b, places, zshFrame)
	case "fish":
		writeFish(&b, places)
	}
	_, err := os.Stdout.WriteString(b.String())
	return err
}

// place is where a command line has come to.
type place struct {
	path  string // of commands, as in "bench run"; empty: none yet
	words []word // that may come next
}

// word is a command or a flag.
type word struct {
	text, help string
	value      bool     // another word follows
	values     []string // which that may be; none: any
}

// step is the place above and the word that leads here, as in "bench/run".
func (p *place) step() string {
	i := strings.LastIndexByte(p.path, ' ')
	return p.path[:max(i, 0)] + "/" + p.path[i+1:]
}

// completions are the places of a grammar, the root first. A command that may be left out has its
// words at the place above, too.
func completions(n *kong.Node) []place {
	path := strings.TrimPrefix(strings.TrimPrefix(n.Path(), "penstock"), " ")
	here := place{path: path}
	var below []place
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		here.words = append(here.words, word{text: child.Name, help: child.Help})
		below = append(below, completions(child)...)
	}
	from := []*kong.Node{n}
	if n.DefaultCmd != nil {
		from = append(from, n.DefaultCmd)
	}
	for _, from := range from {
		for _, p := range from.Positional {
			for _, v := range choices(p) {
				here.words = append(here.words, word{text: v})
			}
		}
		for _, f := range from.Flags {
			if f.Hidden || f.Name == "help" && from != n {
				continue
			}
			here.words = append(here.words, word{
				text: "--" + f.Name, help: f.Help, value: !f.IsBool(), values: choices(f.Value),
			})
		}
	}
	return append([]place{here}, below...)
}

// choices are the values that are allowed; none: any.
func choices(v *kong.Value) []string {
	if v.Enum == "" {
		return nil
	}
	return v.EnumSlice()
}

// frame is what two shells do in the same way: they follow the commands of the line, and offer the
// words of the place, or the values of the flag before.
type frame struct{ head, end string }

var (
	bashFrame = frame{
		`_penstock() {
  local place="" offer="" word previous="${COMP_WORDS[COMP_CWORD-1]}"
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
`, `  COMPREPLY=($(compgen -W "$offer" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _penstock penstock
`,
	}
	zshFrame = frame{
		`#compdef penstock
_penstock() {
  local place="" offer="" word previous="${words[CURRENT-1]}"
  for word in "${(@)words[2,CURRENT-1]}"; do
`, `  compadd -- ${=offer} || _files
}
compdef _penstock penstock
`,
	}
)

func writeShell(b *strings.Builder, places []place, f frame) {
	b.WriteString(f.head)
	b.WriteString("    case \"$place/$word\" in\n")
	for _, p := range places[1:] {
		fmt.Fprintf(b, "      %q) place=%q ;;\n", p.step(), p.path)
	}
	b.WriteString("    esac\n  done\n  case \"$place\" in\n")
	for _, p := range places {
		var offer []string
		for _, w := range p.words {
			offer = append(offer, w.text)
		}
		fmt.Fprintf(b, "    %q) offer=%q ;;\n", p.path, strings.Join(offer, " "))
	}
	b.WriteString("  esac\n  case \"$place/$previous\" in\n")
	for _, p := range places {
		for _, w := range p.words {
			if w.value {
				fmt.Fprintf(b, "    %q) offer=%q ;;\n", p.path+"/"+w.text, strings.Join(w.values, " "))
			}
		}
	}
	b.WriteString("  esac\n")
	b.WriteString(f.end)
}

// quoteFish is text in single quotes.
func quoteFish(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

func writeFish(b *strings.Builder, places []place) {
	b.WriteString("function __penstock_at\n  set -l place ''\n" +
		"  for word in (commandline -opc)[2..-1]\n    switch \"$place/$word\"\n")
	for _, p := range places[1:] {
		fmt.Fprintf(b, "      case %s\n        set place %s\n", quoteFish(p.step()), quoteFish(p.path))
	}
	b.WriteString("    end\n" + "  end\n  test \"$place\" = \"$argv[1]\"\nend\n")
	for _, p := range places {
		at := "complete -c penstock -n " + quoteFish("__penstock_at "+quoteFish(p.path))
		for _, w := range p.words {
			name, flag := strings.CutPrefix(w.text, "--")
			help, _, _ := strings.Cut(w.help, ". ")
			switch {
			case !flag:
				fmt.Fprintf(b, "%s -a %s -d %s\n", at, name, quoteFish(help))
			case len(w.values) > 0:
				values := quoteFish(strings.Join(w.values, " "))
				fmt.Fprintf(b, "%s -l %s -x -a %s -d %s\n", at, name, values, quoteFish(help))
			case w.value:
				fmt.Fprintf(b, "%s -l %s -r -d %s\n", at, name, quoteFish(help))
			default:
				fmt.Fprintf(b, "%s -l %s -d %s\n", at, name, quoteFish(help))
			}
		}
	}
}
