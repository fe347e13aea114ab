package fault

import (
	_ "embed" // embeds faults.txtar
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

// faultDef describes a fault: its name, its documented value and parameters, its description and
// its effects.
type faultDef struct {
	name, usage, text string
	params            []faultParam
	effects           []effect
}

// faultParam is a parameter of a fault, or the value that follows the fault's name.
type faultParam struct {
	name, def string
	needed    bool
	read      paramParser
}

// effect is a set of Effects members as JSON. If param is set, the effect applies only if that
// parameter has the given value. If value is empty, any value of the parameter other than "", "0"
// and "false" is enough.
type effect struct{ param, value, members string }

func (e *effect) applies(values map[string]string) bool {
	switch v := values[e.param]; {
	case e.param == "":
		return true
	case e.value != "":
		return v == e.value
	default:
		return v != "" && v != "0" && v != "false"
	}
}

//go:embed faults.txtar
var faultsText string

// faultTable returns all faults in the order in which --faults lists them. Faults that affect
// connections and times come first, and then those that affect heads, framing and unstreamed
// bodies. Faults that interrupt a response follow. The many forms of a stream, legal or illegal,
// come last.
var faultTable = sync.OnceValue(func() (rows []faultDef) {
	for section := range strings.SplitSeq(strings.TrimPrefix(faultsText, "-- "), "\n-- ") {
		head, body, _ := strings.Cut(section, " --\n")
		lines := strings.Split(strings.TrimSpace(body), "\n")
		r := faultDef{text: lines[0]}
		r.name, r.usage, _ = strings.Cut(head, " ")
		for one := range strings.FieldsFuncSeq(r.usage, func(c rune) bool { return c == '[' || c == ']' }) {
			r.params = append(r.params, parseParam(one, r.usage[0] != '['))
		}
		r.params = append(r.params, faultParam{name: "delay", def: "0s", read: parseDuration})
		for _, line := range lines[1:] {
			when, members, _ := strings.Cut(line, "{")
			e := effect{members: "{" + members}
			e.param, e.value, _ = strings.Cut(strings.TrimSpace(when), "=")
			r.effects = append(r.effects, e)
		}
		rows = append(rows, r)
	}
	return rows
})

var (
	choicePattern = regexp.MustCompile(`^[A-Z|]+$`)
	digitsPattern = regexp.MustCompile(`^[0-9]+$`)
)

// parseParam parses the usage of one parameter, such as ";gap=100ms". The default determines which
// values the parameter accepts. A parameter without a default is a flag. A default in capital
// letters names the kind of value.
func parseParam(usage string, needed bool) faultParam {
	name, def, has := strings.Cut(usage, "=")
	p := faultParam{name: strings.TrimPrefix(name, ";"), def: def, needed: needed, read: parseText}
	if p.name == "" {
		p.name = "value"
	}
	_, noSpan := time.ParseDuration(def)
	switch {
	case !has:
		p.read = parseFlag
	case def == "MB":
		p.read, p.def = parseNumber, "0"
	case def == "DURATION":
		p.read, p.def = parseDuration, "0"
	case choicePattern.MatchString(def):
		p.def = ""
	case digitsPattern.MatchString(def):
		p.read = parseNumber
	case noSpan == nil:
		p.read = parseDuration
	case strings.Contains(def, "|"):
		words := strings.Split(def, "|")
		p.read, p.def = enumParser(words), words[0]
	}
	return p
}

// HelpText returns the table of faults for display.
func HelpText() string {
	var b strings.Builder
	width := 0
	for _, f := range faultTable() {
		width = max(width, len(f.name+f.usage))
	}
	width = min(width, 44)
	for _, f := range faultTable() {
		sep := strings.Repeat(" ", max(0, width-len(f.name+f.usage)))
		if len(f.name+f.usage) > width {
			sep = "\n" + strings.Repeat(" ", width)
		}
		fmt.Fprintf(&b, "%s%s  %s\n", f.name+f.usage, sep, f.text)
	}
	b.WriteString("\nNAME[=VALUE][;param=value…], several joined by +; every fault takes delay=DURATION.\n" +
		"By header X-Sim-Fault, by JSON member \"sim\":{\"fault\":\"…\"}," +
		" by [[sim {\"fault\":\"…\"}]] in the last user message,\n" +
		"or for all: POST /sim/fault {\"fault\":\"…\",\"count\":N,\"after\":N,\"share\":0.1,\"path\":\"…\"};" +
		" POST /sim/reset clears.\n")
	return b.String()
}

// Names returns the names of all faults in the order of the table.
func Names() (names []string) {
	for _, f := range faultTable() {
		names = append(names, f.name)
	}
	return names
}
