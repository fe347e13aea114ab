package main

import (
	"fmt"
	"strings"
)

// man writes the man page from the help texts of the program and its commands.
func (r *release) man() error {
	help, err := output(r.native(), "--help")
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, ".TH PENSTOCK 1 %s %q\n.SH NAME\npenstock \\- %s\n", r.time.Format("2006-01-02"), "penstock "+r.version, strings.ToLower(summary[:1])+summary[1:])
	b.WriteString(".SH SYNOPSIS\n" + verbatim(help))
	for _, name := range commands(help) {
		text, err := output(r.native(), append(strings.Fields(name), "--help")...)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, ".SH PENSTOCK %s\n%s", strings.ToUpper(name), verbatim(text))
	}
	return r.write("penstock.1", []byte(b.String()))
}

// verbatim returns man-page source that prints text unformatted.
func verbatim(text string) string {
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
