package command

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"penstock/config"
	"penstock/config/suggest"
	"penstock/proxy/plaintext"
)

// Exit codes: 1 for a run that failed, a wrong configuration included, 2 for wrong usage; 130 and
// 143 for an edge that a second SIGINT or SIGTERM did not let drain (proxy.InterruptedError), 131
// and 134 for one that SIGQUIT or SIGABRT has ended. `bench` has more: see bench/exit.
const (
	exitFailed = 1
	ExitUsage  = 2 // wrong usage
)

// Report writes what went wrong to w, as the operator is to read it, and returns the exit code.
func Report(w io.Writer, err error) int {
	code := exitFailed
	var own interface{ ExitCode() int }
	if errors.As(err, &own) {
		code = own.ExitCode()
	}
	var problems config.Problems
	switch text := err.Error(); {
	case errors.As(err, &problems): // each line begins with its place in the file, as editors want it
		fmt.Fprintln(w, plaintext.Text(text))
	case text != "":
		fmt.Fprintln(w, "penstock:", plaintext.Text(text))
	}
	return code
}

// Customary turns `help COMMAND…` and `--version` into what they mean.
func Customary(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(append([]string(nil), args[1:]...), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// Unknown refuses a first word that is not a command. Without a command the grammar takes
// the words as arguments of serve, and so would suggest nothing.
func Unknown(args []string, commands []*kong.Node) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil
	}
	var names []string
	for _, c := range commands {
		if c.Name == args[0] {
			return nil
		}
		names = append(names, c.Name)
	}
	if strings.HasSuffix(args[0], ".yaml") || strings.HasSuffix(args[0], ".yml") {
		return usageError(fmt.Sprintf("%q is no command: to serve a configuration, say penstock serve --config %s",
			args[0], args[0]))
	}
	hint := suggest.DidYouMean(args[0], names)
	if hint == "" {
		hint = ": the commands are " + strings.Join(names, ", ")
	}
	return usageError(fmt.Sprintf("%q is no command%s", args[0], hint))
}

// missingValue matches kong's error for a flag without its value at the end of the line.
var missingValue = regexp.MustCompile(`^(-\S+): expected .* value but got "EOL" \(<EOL>\)$`)

// PlainUsage rewrites kong's errors for the operator who typed the command.
func PlainUsage(err error) error {
	if err == nil {
		return nil
	}
	if m := missingValue.FindStringSubmatch(err.Error()); m != nil {
		return usageError(m[1] + " needs a value behind it")
	}
	if name, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok &&
		(strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) {
		return usageError(err.Error() + ": a configuration is given with --config " + name)
	}
	return err
}

// usageError is a mistake on the command line that the grammar does not find.
type usageError string

func (e usageError) Error() string { return string(e) }

// ExitCode is that of wrong usage.
func (usageError) ExitCode() int { return ExitUsage }
