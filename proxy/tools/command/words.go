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
	"penstock/proxy/front/plaintext"
)

// These are the exit codes:
//
//   - 1: the command failed or the configuration is invalid.
//   - 2: the usage was wrong.
//   - 130 and 143: a second SIGINT or SIGTERM ended a drain early (proxy.InterruptedError).
//   - 131 and 134: the process received SIGQUIT or SIGABRT.
//
// `bench` has more exit codes (bench/exit).
const (
	exitFailed = 1
	ExitUsage  = 2
)

// ReportError prints an error for an operator to w and returns the exit code.
func ReportError(w io.Writer, err error) int {
	code := exitFailed
	var own interface{ ExitCode() int }
	if errors.As(err, &own) {
		code = own.ExitCode()
	}
	var problems config.Problems
	var told interface{ Logged() bool }
	switch text := err.Error(); {
	// The error has already been logged.
	case errors.As(err, &told) && told.Logged():
	case errors.As(err, &problems): // each line starts with a position in a file, as editors expect
		fmt.Fprintln(w, plaintext.CleanText(text))
	case text != "":
		for _, e := range splitErrors(err) {
			fmt.Fprintln(w, "penstock:", plaintext.CleanText(e.Error()))
		}
	}
	return code
}

func splitErrors(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	}
	return []error{err}
}

// NormalizeArgs replaces the common forms `help COMMAND…` and `--version` by the forms that this
// program uses.
func NormalizeArgs(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(append([]string(nil), args[1:]...), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// RejectUnknownCommand rejects a first word that is not a command. kong would treat the word as an
// argument of serve, and would not suggest a command.
func RejectUnknownCommand(args []string, commands []*kong.Node) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return nil
	}
	var names []string
	for _, c := range commands {
		if c.Name == args[0] {
			return checkSubcommand(args[1:], c)
		}
		if !c.Hidden {
			names = append(names, c.Name)
		}
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

// checkSubcommand rejects a word that resembles a subcommand. kong would treat the word as an
// argument of the default subcommand.
func checkSubcommand(args []string, command *kong.Node) error {
	if command.DefaultCmd == nil || len(args) == 0 || strings.ContainsAny(args[0], "-.:/") {
		return nil
	}
	var names []string
	for _, c := range command.Children {
		if c.Name == args[0] {
			return nil
		}
		names = append(names, c.Name)
	}
	hint := suggest.DidYouMean(args[0], names)
	if hint == "" {
		return nil
	}
	return usageError(fmt.Sprintf("%q is no command of %s%s A host is written http://%s",
		args[0], command.Name, hint, args[0]))
}

var (
	missingValuePattern     = regexp.MustCompile(`^(-\S+): (?:expected .* value but got "EOL" \(<EOL>\)|missing value, expecting .*)$`)
	notInEnumPattern        = regexp.MustCompile(`^(\S+) must be one of (".*") but got "(.*)"$`)
	unknownFlagPattern      = regexp.MustCompile(`^unknown flag (-\S+?)(?:, did you mean .*)?$`)
	missingArgumentsPattern = regexp.MustCompile(`^expected (?:one of )?(".*")(?:, \.\.\.)?$`)
)

// RewriteUsageError rewrites errors from kong for users.
func RewriteUsageError(err error) error {
	if err == nil {
		return nil
	}
	if m := missingValuePattern.FindStringSubmatch(err.Error()); m != nil {
		return usageError(m[1] + " needs a value behind it")
	}
	if m := notInEnumPattern.FindStringSubmatch(err.Error()); m != nil {
		var words []string
		for word := range strings.SplitSeq(m[2], ",") {
			words = append(words, strings.Trim(word, `"`))
		}
		return usageError(fmt.Sprintf("%s: %q is not among its values%s", m[1], m[3], suggest.ChoiceHint(m[3], words)))
	}
	if m := missingArgumentsPattern.FindStringSubmatch(err.Error()); m != nil {
		return usageError(missingArgumentText(err, m[1]))
	}
	if m := unknownFlagPattern.FindStringSubmatch(err.Error()); m != nil && isServeError(err) && foreignFlagAdvice[m[1]] != "" {
		return usageError("serve has no " + m[1] + ": " + foreignFlagAdvice[m[1]])
	}
	if name, ok := strings.CutPrefix(err.Error(), "unexpected argument "); ok &&
		(strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")) {
		return usageError(err.Error() + ": a configuration is given with --config " + name)
	}
	return err
}

// foreignFlagAdvice maps flags of other model servers to advice about serve.
var foreignFlagAdvice = map[string]string{
	"--port":       "write --listen PORT for this machine alone, or --listen :PORT for others, too",
	"-p":           "write --listen PORT for this machine alone, or --listen :PORT for others, too",
	"--host":       "write --listen HOST:PORT",
	"--bind":       "write --listen HOST:PORT",
	"--admin":      "write --admin-listen HOST:PORT",
	"--admin-port": "write --admin-listen PORT",
	"--key":        "write --key-file FILE: it holds the key that clients send, and is created if it does not exist",
	"--keys":       "write --key-file FILE: it holds the key that clients send, and is created if it does not exist",
	"--master-key": "write --key-file FILE: it holds the key that clients send, and is created if it does not exist",
	"--model":      "write --engine URL: the engine's models are found",
	"--upstream":   "write --engine URL; more is said of upstreams in a file, which penstock init URL begins",
	"--backend":    "write --engine URL; more is said of upstreams in a file, which penstock init URL begins",
	"--url":        "write --engine URL",
	"--cert":       "TLS is in a file, as tls: { cert, key }; penstock init URL begins one",
	"--tls-cert":   "TLS is in a file, as tls: { cert, key }; penstock init URL begins one",
	"--workers":    "one process uses all processors that it has",
}

func isServeError(err error) bool {
	var at *kong.ParseError
	if !errors.As(err, &at) || at.Context == nil {
		return false
	}
	n := at.Context.Selected()
	return n == nil || n.Name == "serve"
}

// missingArgumentText describes the missing part of a command line in the words that the command's
// help uses.
func missingArgumentText(err error, missing string) string {
	var at *kong.ParseError
	if !errors.As(err, &at) || at.Context == nil || at.Context.Selected() == nil {
		return err.Error()
	}
	node := at.Context.Selected()
	command := strings.TrimPrefix(node.FullPath(), "penstock ")
	if len(node.Positional) == 0 {
		var commands []string
		for _, c := range node.Children {
			if !c.Hidden {
				commands = append(commands, c.Name)
			}
		}
		return fmt.Sprintf("%s: name one of its commands: %s (see penstock help %s)", command, strings.Join(commands, ", "), command)
	}
	var wanted []string
	for _, p := range node.Positional {
		if strings.Contains(missing, "<"+p.Name+">") {
			wanted = append(wanted, fmt.Sprintf("<%s>: %s", p.Name, strings.TrimSuffix(p.Help, ".")))
		}
	}
	return fmt.Sprintf("%s needs %s (see penstock help %s)", command, strings.Join(wanted, ", and "), command)
}

type usageError string

func (e usageError) Error() string { return string(e) }

// ExitCode returns the exit code for wrong usage.
func (usageError) ExitCode() int { return ExitUsage }
