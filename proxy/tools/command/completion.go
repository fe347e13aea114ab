package command

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// Completion prints a completion script for a shell.
type Completion struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: ${enum}."`

	Scenarios []string `kong:"-"` // names of bench scenarios
}

// Help is printed below the flags.
func (c *Completion) Help() string {
	return "The script completes commands, flags and their values; names of upstreams and models are those of the running edge, " +
		"or of the configuration, and codes, settings and scenarios those of the program. It goes into the shell's start file: " +
		"\"source <(penstock completion bash)\", in zsh, after compinit, \"source <(penstock completion zsh)\", " +
		"in fish \"penstock completion fish | source\"."
}

// Run prints the script, which is generated from kong's grammar.
func (c *Completion) Run(ctx *kong.Context) error {
	var b strings.Builder
	places := c.places(ctx.Model.Node)
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

// place is a node in kong's grammar that a command line has reached.
type place struct {
	// Commands typed so far, such as "bench run"; empty at the root.
	path  string
	words []word // possible next words other than flags: commands or values
	flags []flag
	kind  string // kind of the arguments: a kind of names, files, or empty
}

type word struct{ text, help string }

type flag struct {
	word
	short  string // short flag, or empty
	value  bool
	values []string // allowed values; nil if any value is allowed
	kind   string   // kind of the value, like place.kind
}

// step returns the parent's path and the last word, joined with a slash, as in "bench/run".
func (p *place) step() string {
	i := strings.LastIndexByte(p.path, ' ')
	return p.path[:max(i, 0)] + "/" + p.path[i+1:]
}

// places returns the places in a grammar, starting with the root. The words after a default command
// are also offered after its parent.
func (c *Completion) places(n *kong.Node) []place {
	path := strings.TrimPrefix(strings.TrimPrefix(n.Path(), "penstock"), " ")
	here := place{path: path}
	var below []place
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		here.words = append(here.words, word{text: child.Name, help: child.Help})
		below = append(below, c.places(child)...)
	}
	from := []*kong.Node{n}
	if n.DefaultCmd != nil {
		from = append(from, n.DefaultCmd)
	}
	for _, from := range from {
		for _, p := range from.Positional {
			for _, v := range c.choices(p) {
				here.words = append(here.words, word{text: v})
			}
			here.kind = cmp.Or(here.kind, kindOf(p))
		}
		for _, f := range from.Flags {
			if f.Hidden || f.Name == "help" && from != n {
				continue
			}
			offered := flag{
				word: word{"--" + f.Name, f.Help}, value: !f.IsBool(), values: c.choices(f.Value), kind: kindOf(f.Value),
			}
			if f.Short != 0 {
				offered.short = "-" + string(f.Short)
			}
			here.flags = append(here.flags, offered)
		}
	}
	return append([]place{here}, below...)
}

func (c *Completion) choices(v *kong.Value) []string {
	switch {
	case v.Tag.Get("values") == "scenarios":
		return c.Scenarios
	case v.Enum == "":
		return nil
	}
	return v.EnumSlice()
}

// kindOf returns the kind of a value. The shell completes file names; the program completes all
// other kinds.
func kindOf(v *kong.Value) string {
	switch kind := v.Tag.Get("values"); {
	case kind == "scenarios":
		return ""
	case kind == "" && v.Tag.PlaceHolder == "FILE":
		return files
	default:
		return kind
	}
}

// files is the kind of values that the shell completes.
const files = "files"

// frame is the text that differs between the scripts for bash and zsh.
type frame struct{ head, end string }

var (
	// Readline splits words at = and :, so the script splits the line in its own way.
	bashFrame = frame{
		`_penstock() {
  local place="" offer="" flags="" kind="" word line
  local text="${COMP_LINE:0:COMP_POINT}" program="${COMP_WORDS[0]/#\~/$HOME}"
  [[ -z $COMP_LINE ]] && text="${COMP_WORDS[*]:0:COMP_CWORD+1}"
  read -ra line <<<"$text"
  [[ $text == *" " ]] && line+=("")
  local current="${line[${#line[@]}-1]}" previous="${line[${#line[@]}-2]}"
  [[ $current == -*=* ]] && previous="${current%%=*}" current="${current#*=}"
  line=("${line[@]:1:${#line[@]}-2}")
  for word in "${line[@]}"; do
`, `  COMPREPLY=()
  for word in $offer; do
    [[ $word == "$current"* ]] && COMPREPLY+=("${word#"${current%"${current##*:}"}"}")
  done
}
complete -o default -F _penstock penstock
`,
	}
	zshFrame = frame{
		`#compdef penstock
_penstock() {
  local place="" offer="" flags="" kind="" word program="${words[1]/#\~/$HOME}"
  local current="${words[CURRENT]}" previous="${words[CURRENT-1]}"
  local line=("${(@)words[2,CURRENT-1]}")
  for word in "${line[@]}"; do
`, `  [[ -n $offer ]] && compadd -- ${=offer} || _files
}
compdef _penstock penstock
`,
	}
)

// asking is the part of a script that calls the program to get names.
const asking = `  if [[ $current == -* ]]; then
    offer="$flags" kind=""
  elif [[ -n $kind && $kind != files ]]; then
    offer="$offer $("$program" completion-values "$kind" -- "${line[@]}" 2>/dev/null)"
  elif [[ -z $offer && -z $kind ]]; then
    offer="$flags"
  fi
`

func writeShell(b *strings.Builder, places []place, f frame) {
	b.WriteString(f.head)
	b.WriteString("    case \"$place/$word\" in\n")
	for _, p := range places[1:] {
		fmt.Fprintf(b, "      %q) place=%q ;;\n", p.step(), p.path)
	}
	b.WriteString("    esac\n  done\n  case \"$place\" in\n")
	for _, p := range places {
		var offer, flags []string
		for _, w := range p.words {
			offer = append(offer, w.text)
		}
		for _, f := range p.flags {
			flags = append(flags, f.text)
		}
		fmt.Fprintf(b, "    %q) offer=%q flags=%q kind=%q ;;\n",
			p.path, strings.Join(offer, " "), strings.Join(flags, " "), p.kind)
	}
	b.WriteString("  esac\n  case \"$place/$previous\" in\n")
	for _, p := range places {
		for _, f := range p.flags {
			if !f.value {
				continue
			}
			at := fmt.Sprintf("%q", p.path+"/"+f.text)
			if f.short != "" {
				at += fmt.Sprintf("|%q", p.path+"/"+f.short)
			}
			fmt.Fprintf(b, "    %s) offer=%q flags=\"\" kind=%q ;;\n", at, strings.Join(f.values, " "), f.kind)
		}
	}
	b.WriteString("  esac\n")
	b.WriteString(asking)
	b.WriteString(f.end)
}

func quoteFish(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// fishHead is the part of a script that determines the place of a command line and calls the
// program to get names.
const fishHead = `function __penstock_values
  set -l line (commandline -opc)
  command $line[1] completion-values $argv[1] -- $line[2..-1] 2>/dev/null
end
function __penstock_at
  set -l place ''
  for word in (commandline -opc)[2..-1]
    switch "$place/$word"
`

func writeFish(b *strings.Builder, places []place) {
	b.WriteString(fishHead)
	for _, p := range places[1:] {
		fmt.Fprintf(b, "      case %s\n        set place %s\n", quoteFish(p.step()), quoteFish(p.path))
	}
	b.WriteString("    end\n" + "  end\n  test \"$place\" = \"$argv[1]\"\nend\n")
	for _, p := range places {
		at := "complete -c penstock -n " + quoteFish("__penstock_at "+quoteFish(p.path))
		if p.kind != files {
			at += " -f"
		}
		for _, w := range p.words {
			fmt.Fprintf(b, "%s -a %s -d %s\n", at, w.text, quoteFish(gistOf(w.help)))
		}
		if p.kind != "" && p.kind != files {
			fmt.Fprintf(b, "%s -a %s\n", at, quoteFish("(__penstock_values "+p.kind+")"))
		}
		at = strings.TrimSuffix(at, " -f")
		for _, f := range p.flags {
			fmt.Fprintf(b, "%s %s -d %s\n", at, f.fish(), quoteFish(gistOf(f.help)))
		}
	}
}

func gistOf(help string) string {
	help, _, _ = strings.Cut(help, ". ")
	return help
}

func (f *flag) fish() string {
	name := "-l " + strings.TrimPrefix(f.text, "--")
	if f.short != "" {
		name += " -s " + strings.TrimPrefix(f.short, "-")
	}
	switch {
	case len(f.values) > 0:
		return name + " -x -a " + quoteFish(strings.Join(f.values, " "))
	case f.kind != "" && f.kind != files:
		return name + " -x -a " + quoteFish("(__penstock_values "+f.kind+")")
	case f.value:
		return name + " -r"
	}
	return name
}
