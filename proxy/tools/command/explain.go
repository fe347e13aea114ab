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

func (r *referenceRow) jsonMembers() map[string]string {
	m := map[string]string{"name": r.name}
	for i, column := range r.columns {
		m[column] = r.cells[i]
	}
	return m
}

type referenceRow struct {
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

func (r *referenceRow) isErrorCode() bool { return r.columns[0] == codeColumns[0] }

func (r *referenceRow) isWord() bool { return &r.columns[0] == &wordColumns[0] }

// logReferenceSections are the sections of the log reference that explain words.
var logReferenceSections = []string{"Events", "Outcomes", "Causes", "States", "Features"}

func parseLogTermRows() (rows []referenceRow) {
	for _, name := range logReferenceSections {
		_, section, _ := strings.Cut(reference.LogMarkdown, "\n## "+name+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		rows = append(rows, parseTableRows(section, wordColumns)...)
	}
	return rows
}

var alertNamePattern = regexp.MustCompile(`Penstock[A-Z]\w+`)

// withAlerts adds the rows of alerts that are mentioned in the given rows, because the row of an
// alert contains the remedy.
func withAlerts(rows, all []referenceRow) []referenceRow {
	var names []string
	for i := range rows {
		if rows[i].isWord() {
			names = append(names, alertNamePattern.FindAllString(rows[i].cells[0], -1)...)
		}
	}
	for i := range all {
		if slices.Contains(names, all[i].name) {
			rows = append(rows, all[i])
		}
	}
	return rows
}

func referenceRows() []referenceRow {
	all := slices.Concat(parseTableRows(reference.ErrorsMarkdown, codeColumns), parseTableRows(config.SettingsReference(), settingColumns), parseLogTermRows())
	for _, d := range hook.AllAnswerMistakes() {
		all = append(all, referenceRow{string(upstreams.CauseHookAnswer) + "." + string(d.Mistake), wordColumns, []string{strings.ReplaceAll(d.Meaning, "`", "")}})
	}
	alerts := proxy.AlertInstructions()
	for _, name := range slices.Sorted(maps.Keys(alerts)) {
		all = append(all, referenceRow{name, alertColumns, []string{alerts[name]}})
	}
	return all
}

// maxFullRows is the maximum number of rows that are printed in full. If there are more, each row
// is printed on one line.
const maxFullRows = 20

// Run prints the rows about the word.
func (e *Explain) Run() error {
	word := strings.ReplaceAll(strings.Trim(e.Word, "."), "[]", "")
	all := referenceRows()
	rows := withAlerts(rowsWithName(all, word), all)
	if !slices.ContainsFunc(rows, func(r referenceRow) bool { return !r.isWord() }) {
		for _, row := range rowsMatchingWord(all, strings.ToLower(word)) {
			// A word in the log, such as timeout, may also be part of the name of a setting.
			if !row.isWord() || rows == nil {
				rows = append(rows, row)
			}
		}
	}
	if rows == nil {
		return usageError(fmt.Sprintf("explain: %q is neither an error's code nor a setting, an alert or a word of the log%s", e.Word, unknownWordHint(all, word)))
	}
	if e.Format == formatJSON {
		all := make([]map[string]string, len(rows))
		for i := range rows {
			all[i] = rows[i].jsonMembers()
		}
		return printJSON(all)
	}
	for _, row := range rows {
		if len(rows) <= maxFullRows || row.name == word {
			row.printFull()
			continue
		}
		fmt.Fprintf(os.Stdout, "%-36s  %s\n", row.name, row.summary())
	}
	if len(rows) > maxFullRows {
		fmt.Fprintf(os.Stdout, "\n%d of them: penstock explain %s says more of one.\n", len(rows), rows[len(rows)-1].name)
	}
	return nil
}

func (r *referenceRow) printFull() {
	fmt.Fprintln(os.Stdout, r.name)
	for i, column := range r.columns {
		if r.cells[i] != "" {
			fmt.Fprintf(os.Stdout, "  %-8s  %s\n", column, r.cells[i])
		}
	}
}

func unknownWordHint(all []referenceRow, word string) string {
	var names []string
	for _, row := range all {
		names = append(names, row.name)
	}
	if hint := suggest.DidYouMean(word, names); hint != "" {
		return hint
	}
	return ": give the code of an error, its status, or the path of a setting as penstock check names it"
}

// rowsWithName returns the rows whose name is word, the rows below that name, and the error codes
// whose status is word.
func rowsWithName(all []referenceRow, word string) (rows []referenceRow) {
	for _, row := range all {
		if row.name == word || strings.HasPrefix(row.name, word+".") ||
			row.isErrorCode() && slices.Contains(rowHTTPStatuses(row), word) {
			rows = append(rows, row)
		}
	}
	return rows
}

// rowHTTPStatuses returns the statuses in a row. It adds 529 if a row has a status from 502 to 504,
// because the Messages dialect uses 529 instead.
func rowHTTPStatuses(row referenceRow) []string {
	all := strings.FieldsFunc(row.cells[0], func(r rune) bool { return r < '0' || r > '9' })
	if slices.ContainsFunc(all, func(s string) bool { return s == "502" || s == "503" || s == "504" }) {
		all = append(all, "529")
	}
	return all
}

// markdownLinkPattern matches a Markdown link. Only the text of the link is used.
var markdownLinkPattern = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)

func parseTableRows(text string, columns []string) []referenceRow {
	var rows []referenceRow
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		name := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := referenceRow{columns: columns, name: strings.ReplaceAll(strings.Trim(name, "`"), "[]", "")}
		for _, cell := range cells[1:] {
			cell = markdownLinkPattern.ReplaceAllString(strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"), "$1")
			row.cells = append(row.cells, strings.ReplaceAll(cell, "`", ""))
		}
		if len(row.cells) == len(columns) {
			rows = append(rows, row)
		}
	}
	return rows
}
