package command

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy"
)

// Explain says what a code or a setting means.
type Explain struct {
	Word string `arg:"" name:"code|setting" help:"Code of an error, such as capacity_full, all codes of a status, such as 429, or a setting, such as upstreams.concurrency or upstreams."`
}

// explained is a row of a reference.
type explained struct {
	name  string   // without the marks of lists
	cells []string // as the columns are called, one text each
}

// Run prints what the references say, which are made from the code.
func (e *Explain) Run() error {
	word := strings.ReplaceAll(strings.Trim(e.Word, "."), "[]", "")
	var names []string
	found := false
	for _, reference := range []struct {
		text    string
		columns []string
	}{
		{proxy.ErrorReference(), []string{"status", "cause", "remedy"}},
		{config.Reference(), []string{"value", "default", "meaning"}},
	} {
		for _, row := range rowsOf(reference.text) {
			names = append(names, row.name)
			asked := row.name == word || strings.HasPrefix(row.name, word+".") ||
				reference.columns[0] == "status" && slices.Contains(statuses(row), word)
			if !asked || len(row.cells) != len(reference.columns) {
				continue
			}
			found = true
			fmt.Fprintln(os.Stdout, row.name)
			for i, column := range reference.columns {
				if row.cells[i] != "" {
					fmt.Fprintf(os.Stdout, "  %-8s  %s\n", column, row.cells[i])
				}
			}
		}
	}
	if found {
		return nil
	}
	hint := suggest.DidYouMean(word, names)
	if hint == "" {
		hint = ": give the code of an error, or the path of a setting as penstock check names it"
	}
	return usageError(fmt.Sprintf("explain: %q is neither an error's code nor a setting%s", e.Word, hint))
}

// statuses are those that a row of the codes of errors names. On Messages 502 to 504 are a 529.
func statuses(row explained) []string {
	all := strings.FieldsFunc(row.cells[0], func(r rune) bool { return r < '0' || r > '9' })
	if slices.ContainsFunc(all, func(s string) bool { return s == "502" || s == "503" || s == "504" }) {
		all = append(all, "529")
	}
	return all
}

// link is a link of Markdown, of which the text is kept.
var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)

// rowsOf reads the rows of a reference's tables.
func rowsOf(text string) []explained {
	var rows []explained
	for line := range strings.SplitSeq(text, "\n") {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00"), "|")
		name := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := explained{name: strings.ReplaceAll(strings.Trim(name, "`"), "[]", "")}
		for _, cell := range cells[1:] {
			cell = link.ReplaceAllString(strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|"), "$1")
			row.cells = append(row.cells, strings.ReplaceAll(cell, "`", ""))
		}
		rows = append(rows, row)
	}
	return rows
}
