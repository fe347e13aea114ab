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
	places := c.completionNodes(ctx.Model.Node)
	switch c.Shell {
	case "bash":
		writeShellScript(&b, places, bashFrame)
	case "zsh":
		writeShellScript(&b, places, zshFrame)
	case "fish":
		writeFishScript(&b, places)
	}
	_, err := os.Stdout.WriteString(b.String())
	return err
}

// completionNode is a node in kong's grammar: the state that a command line has reached.
type completionNode struct {
	// path contains the commands typed so far, such as "bench run". It is empty at the root.
	path         string
	nextWords    []completionWord // possible next words other than flags: commands or values
	flags        []completionFlag
	argumentKind string // kind of the arguments: a kind of names, fileNamesKind, or empty
}

type completionWord struct{ text, help string }

type completionFlag struct {
	completionWord
	short      string // short flag, or empty
	takesValue bool
	values     []string // allowed values; nil if any value is allowed
	valueKind  string   // kind of the value, like completionNode.argumentKind
}

// caseLabel returns the parent's path and the last word, joined with a slash, as in "bench/run".
func (p *completionNode) caseLabel() string {
	i := strings.LastIndexByte(p.path, ' ')
	return p.path[:max(i, 0)] + "/" + p.path[i+1:]
}

// completionNodes returns the nodes in a grammar, starting with the root. The words that may follow
// a default command are also offered after its parent.
func (c *Completion) completionNodes(n *kong.Node) []completionNode {
	path := strings.TrimPrefix(strings.TrimPrefix(n.Path(), "penstock"), " ")
	here := completionNode{path: path}
	var below []completionNode
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		here.nextWords = append(here.nextWords, completionWord{text: child.Name, help: child.Help})
		below = append(below, c.completionNodes(child)...)
	}
	from := []*kong.Node{n}
	if n.DefaultCmd != nil {
		from = append(from, n.DefaultCmd)
	}
	for _, from := range from {
		for _, p := range from.Positional {
			for _, v := range c.allowedValues(p) {
				here.nextWords = append(here.nextWords, completionWord{text: v})
			}
			here.argumentKind = cmp.Or(here.argumentKind, completionKind(p))
		}
		for _, f := range from.Flags {
			if f.Hidden || f.Name == "help" && from != n {
				continue
			}
			offered := completionFlag{
				completionWord: completionWord{"--" + f.Name, f.Help}, takesValue: !f.IsBool(), values: c.allowedValues(f.Value), valueKind: completionKind(f.Value),
			}
			if f.Short != 0 {
				offered.short = "-" + string(f.Short)
			}
			here.flags = append(here.flags, offered)
		}
	}
	return append([]completionNode{here}, below...)
}

func (c *Completion) allowedValues(v *kong.Value) []string {
	switch {
	case v.Tag.Get("values") == "scenarios":
		return c.Scenarios
	case v.Enum == "":
		return nil
	}
	return v.EnumSlice()
}

// completionKind returns the kind of a value. The shell completes file names; the program completes
// all other kinds.
func completionKind(v *kong.Value) string {
	switch kind := v.Tag.Get("values"); {
	case kind == "scenarios":
		return ""
	case kind == "" && v.Tag.PlaceHolder == "FILE":
		return fileNamesKind
	default:
		return kind
	}
}

// fileNamesKind is the kind of values that the shell completes.
const fileNamesKind = "files"

// shellScriptFrame is the text that differs between the scripts for bash and zsh.
type shellScriptFrame struct{ head, end string }

var (
	// Readline splits words at = and :, so the script splits the line itself.
	bashFrame = shellScriptFrame{
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
	zshFrame = shellScriptFrame{
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

// requestNamesScript is the part of a script that calls the program to get names.
const requestNamesScript = `  if [[ $current == -* ]]; then
    offer="$flags" kind=""
  elif [[ -n $kind && $kind != files ]]; then
    offer="$offer $("$program" completion-values "$kind" -- "${line[@]}" 2>/dev/null)"
  elif [[ -z $offer && -z $kind ]]; then
    offer="$flags"
  fi
`

func writeShellScript(b *strings.Builder, places []completionNode, f shellScriptFrame) {
	b.WriteString(f.head)
	b.WriteString("    case \"$place/$word\" in\n")
	for _, p := range places[1:] {
		fmt.Fprintf(b, "      %q) place=%q ;;\n", p.caseLabel(), p.path)
	}
	b.WriteString("    esac\n  done\n  case \"$place\" in\n")
	for _, p := range places {
		var offer, flags []string
		for _, w := range p.nextWords {
			offer = append(offer, w.text)
		}
		for _, f := range p.flags {
			flags = append(flags, f.text)
		}
		fmt.Fprintf(b, "    %q) offer=%q flags=%q kind=%q ;;\n",
			p.path, strings.Join(offer, " "), strings.Join(flags, " "), p.argumentKind)
	}
	b.WriteString("  esac\n  case \"$place/$previous\" in\n")
	for _, p := range places {
		for _, f := range p.flags {
			if !f.takesValue {
				continue
			}
			at := fmt.Sprintf("%q", p.path+"/"+f.text)
			if f.short != "" {
				at += fmt.Sprintf("|%q", p.path+"/"+f.short)
			}
			fmt.Fprintf(b, "    %s) offer=%q flags=\"\" kind=%q ;;\n", at, strings.Join(f.values, " "), f.valueKind)
		}
	}
	b.WriteString("  esac\n")
	b.WriteString(requestNamesScript)
	b.WriteString(f.end)
}

func quoteFish(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

// fishHead is the part of the fish script that determines which node a command line has reached,
// and calls the program to get names.
const fishHead = `function __penstock_values
  set -l line (commandline -opc)
  command $line[1] completion-values $argv[1] -- $line[2..-1] 2>/dev/null
end
function __penstock_at
  set -l place ''
  for word in (commandline -opc)[2..-1]
    switch "$place/$word"
`

func writeFishScript(b *strings.Builder, places []completionNode) {
	b.WriteString(fishHead)
	for _, p := range places[1:] {
		fmt.Fprintf(b, "      case %s\n        set place %s\n", quoteFish(p.caseLabel()), quoteFish(p.path))
	}
	b.WriteString("    end\n" + "  end\n  test \"$place\" = \"$argv[1]\"\nend\n")
	for _, p := range places {
		at := "complete -c penstock -n " + quoteFish("__penstock_at "+quoteFish(p.path))
		if p.argumentKind != fileNamesKind {
			at += " -f"
		}
		for _, w := range p.nextWords {
			fmt.Fprintf(b, "%s -a %s -d %s\n", at, w.text, quoteFish(firstSentence(w.help)))
		}
		if p.argumentKind != "" && p.argumentKind != fileNamesKind {
			fmt.Fprintf(b, "%s -a %s\n", at, quoteFish("(__penstock_values "+p.argumentKind+")"))
		}
		at = strings.TrimSuffix(at, " -f")
		for _, f := range p.flags {
			fmt.Fprintf(b, "%s %s -d %s\n", at, f.fishOptions(), quoteFish(firstSentence(f.help)))
		}
	}
}

func firstSentence(help string) string {
	help, _, _ = strings.Cut(help, ". ")
	return help
}

func (f *completionFlag) fishOptions() string {
	name := "-l " + strings.TrimPrefix(f.text, "--")
	if f.short != "" {
		name += " -s " + strings.TrimPrefix(f.short, "-")
	}
	switch {
	case len(f.values) > 0:
		return name + " -x -a " + quoteFish(strings.Join(f.values, " "))
	case f.valueKind != "" && f.valueKind != fileNamesKind:
		return name + " -x -a " + quoteFish("(__penstock_values "+f.valueKind+")")
	case f.takesValue:
		return name + " -r"
	}
	return name
}
