package command

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy"
	"penstock/proxy/operate/reference"
	"penstock/proxy/request/hook"
	"penstock/upstreams"
)

// Explain describes an error code, a setting, an alert, or a word used in the log or on the status
// page.
type Explain struct {
	Word   string `arg:"" name:"word" values:"words" help:"Code of an error, such as capacity_full, all codes of a status, such as 429, a setting or a group of them, such as upstreams.concurrency or limits, a word of theirs, such as queue, timeout or rpm, an alert that the log or the status page names, such as PenstockFull, or a word of theirs: an event, an outcome, a cause or a state, such as upstream_lacks, idle_timeout or busy."`
	Format string `enum:"text,json" default:"text" help:"Form of the output: ${enum}. json is an array: name, and status, cause and remedy of a code, value, default and meaning of a setting, remedy of an alert, or meaning of a word of the log."`
}

func (r *explained) members() map[string]string {
	m := map[string]string{"name": r.name}
	for i, column := range r.columns {
		m[column] = r.cells[i]
	}
	return m
}

type explained struct {
	name    string // name without list markers
	columns []string
	cells   []string
}

// These are the columns of the reference tables, except for the name.
var (
	codeColumns    = []string{"status", "cause", "remedy"}
	settingColumns = []string{"value", "default", "meaning"}
	alertColumns   = []string{"remedy"}
	wordColumns    = []string{"meaning"}
)

func (r *explained) isCode() bool { return r.columns[0] == codeColumns[0] }

func (r *explained) isWord() bool { return &r.columns[0] == &wordColumns[0] }

// wordSections are the sections of the log reference that explain words.
var wordSections = []string{"Events", "Outcomes", "Causes", "States", "Features"}

func logWords() (rows []explained) {
	for _, name := range wordSections {
		_, section, _ := strings.Cut(reference.Log, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rows = append(rows, rowsOf(section, wordColumns)...)
	}
	return rows
}

var alertNamed = regexp.MustCompile(`Penstock[A-Z]\w+`)

// withAlerts adds the alerts mentioned in the rows, because the rows of alerts contain remedies.
func withAlerts(rows, all []explained) []explained {
	var names []string
	for i := range rows {
		if rows[i].isWord() {
			names = append(names, alertNamed.FindAllString(rows[i].cells[0], -1)...)
		}
	}
	for i := range all {
		if slices.Contains(names, all[i].name) {
			rows = append(rows, all[i])
		}
	}
	return rows
}

func references() []explained {
	all := slices.Concat(rowsOf(reference.Errors, codeColumns), rowsOf(config.Reference(), settingColumns), logWords())
	for _, d := range hook.Details() {
		all = append(all, explained{string(upstreams.CauseHookAnswer) + "." + string(d.Detail), wordColumns, []string{strings.ReplaceAll(d.Meaning, "`", "")}})
	}
	alerts := proxy.Alerts()
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		all = append(all, explained{name, alertColumns, []string{alerts[name]}})
	}
	return all
}

// mostWhole is the maximum number of rows that are printed in full. If there are more, each row is
// printed on one line.
const mostWhole = 20

// Run prints the rows about the word.
func (e *Explain) Run() error {
	word := strings.ReplaceAll(strings.Trim(e.Word, "."), "[]", "")
	all := references()
	rows := withAlerts(named(all, word), all)
	if !slices.ContainsFunc(rows, func(r explained) bool { return !r.isWord() }) {
		for _, row := range about(all, strings.ToLower(word)) {
			// A word in the log, such as timeout, may also be part of a setting.
			if !row.isWord() || rows == nil {
				rows = append(rows, row)
			}
		}
	}
	if rows == nil {
		return usageError(fmt.Sprintf("explain: %q is neither an error's code nor a setting, an alert or a word of the log%s", e.Word, hintFor(all, word)))
	}
	if e.Format == formatJSON {
		all := make([]map[string]string, len(rows))
		for i := range rows {
			all[i] = rows[i].members()
		}
		return printJSON(all)
	}
	for _, row := range rows {
		if len(rows) <= mostWhole || row.name == word {
			row.print()
			continue
		}
		fmt.Fprintf(os.Stdout, "%-36s  %s\n", row.name, row.gist())
	}
	if len(rows) > mostWhole {
		fmt.Fprintf(os.Stdout, "\n%d of them: penstock explain %s says more of one.\n", len(rows), rows[len(rows)-1].name)
	}
	return nil
}

func (r *explained) print() {
	fmt.Fprintln(os.Stdout, r.name)
	for i, column := range r.columns {
		if r.cells[i] != "" {
			fmt.Fprintf(os.Stdout, "  %-8s  %s\n", column, r.cells[i])
		}
	}
}

func hintFor(all []explained, word string) string {
	var names []string
	for _, row := range all {
		names = append(names, row.name)
	}
	if hint := suggest.DidYouMean(word, names); hint != "" {
		return hint
	}
	return ": give the code of an error, its status, or the path of a setting as penstock check names it"
}

// named returns the rows with this name, the rows below that name, and the error codes with this
// status.
func named(all []explained, word string) (rows []explained) {
	for _, row := range all {
		if row.name == word || strings.HasPrefix(row.name, word+".") ||
			row.isCode() && slices.Contains(statuses(row), word) {
			rows = append(rows, row)
		}
	}
	return rows
}

// statuses returns the statuses in a row. In the Messages dialect, 502 to 504 become 529.
func statuses(row explained) []string {
	all := strings.FieldsFunc(row.cells[0], func(r rune) bool { return r < '0' || r > '9' })
	if slices.ContainsFunc(all, func(s string) bool { return s == "502" || s == "503" || s == "504" }) {
		all = append(all, "529")
	}
	return all
}

// link matches a Markdown link, of which only the text is used.
var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)

func rowsOf(text string, columns []string) []explained {
	var rows []explained
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		name := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := explained{columns: columns, name: strings.ReplaceAll(strings.Trim(name, "`"), "[]", "")}
		for _, cell := range cells[1:] {
			cell = link.ReplaceAllString(strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"), "$1")
			row.cells = append(row.cells, strings.ReplaceAll(cell, "`", ""))
		}
		if len(row.cells) == len(columns) {
			rows = append(rows, row)
		}
	}
	return rows
}
