package main

import (
	"fmt"
	"strings"
)

// writeManPage writes the man page from the help texts of the program and its commands.
func (r *release) writeManPage() error {
	help, err := commandOutput(r.nativeProgram(), "--help")
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".TH PENSTOCK 1 %s %q\n.SH NAME\npenstock \\- %s\n", r.time.Format("2006-01-02"), "penstock "+r.version, strings.ToLower(packageSummary[:1])+packageSummary[1:])
	b.WriteString(".SH SYNOPSIS\n" + verbatimRoff(help))
	for _, name := range commandNamesInHelp(help) {
		text, err := commandOutput(r.nativeProgram(), append(strings.Fields(name), "--help")...)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, ".SH PENSTOCK %s\n%s", strings.ToUpper(name), verbatimRoff(text))
	}
	return r.writeFile("penstock.1", []byte(b.String()))
}

// verbatimRoff returns man-page source that prints text unformatted.
func verbatimRoff(text string) string {
	var b strings.Builder
	b.WriteString(".nf\n")
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		b.WriteString(line)
	}
	return b.String() + ".fi\n"
}
