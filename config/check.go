package config

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"penstock/config/strictyaml"
	"penstock/config/suggest"
)

// checks is embedded in all groups of checks. It contains the file, and the checker that collects
// problems.
type checks struct {
	file      *File
	positions *strictyaml.Positions
	check     *checker
}

func (f *File) newChecks() checks {
	return checks{f, f.positions(), &checker{positions: f.positions()}}
}

// checker checks single values and collects problems with their positions.
type checker struct {
	strictyaml.Findings
	positions *strictyaml.Positions
	suggested int // number of calls to didYouMean
}

// fail reports a problem with the value at path. If the value could not be read, fail does nothing,
// because a problem has already been reported.
func (c *checker) fail(path, format string, args ...any) { c.report(false, path, format, args) }

func (c *checker) warn(path, format string, args ...any) { c.report(true, path, format, args) }

func (c *checker) report(warning bool, path, format string, args []any) {
	if c.positions.IsBroken(path) {
		return
	}
	p := Problem{Warning: warning}
	if c.HasRoomFor(p) { // do not format a problem that would be discarded
		p = c.positions.ProblemAt(path, fmt.Sprintf(format, args...))
		p.Warning = warning
	}
	c.Add(p)
}

// checkOneOf checks that value is one of allowedValues[set], where set is a schema path.
func (c *checker) checkOneOf(path, set, what, value string) {
	if allowed := allowedValues[set]; !slices.Contains(allowed, value) {
		c.fail(path, "%s is not %s%s", c.positions.QuoteValue(path, value), what, suggest.ChoiceHint(value, allowed))
	}
}

// checkEachOneOf checks that all values in a list belong to a closed set and that none occurs
// twice.
func (c *checker) checkEachOneOf(path, set, what string, values []string) {
	for i, v := range values {
		if c.IsFull() {
			return
		}
		allowed, again := slices.Contains(allowedValues[set], v), slices.Contains(values[:i], v)
		if allowed && !again { // usual case: no path needs to be built
			continue
		}
		at := entryPath(path, i)
		c.checkOneOf(at, set, what, v)
		if again {
			c.fail(at, "%s is listed twice", c.positions.QuoteValue(at, v))
		}
	}
}

// didYouMean suggests the most similar candidate. After a certain number of calls it returns "", to
// limit the time spent.
func (c *checker) didYouMean(name string, candidates func() []string) string {
	if c.suggested++; c.suggested > 2*strictyaml.MaxProblems {
		return ""
	}
	return suggest.DidYouMean(name, candidates())
}

func (c *checker) checkRange(path string, n, least, most int) {
	if n < least || n > most {
		c.fail(path, "%d is out of range: %d to %d", n, least, most)
	}
}

// numericMember is a key of a mapping and its numeric value.
type numericMember struct {
	key string
	n   int
}

// checkNotNegative checks that numbers without an upper bound are not negative.
func (c *checker) checkNotNegative(path string, members ...numericMember) {
	for _, m := range members {
		if m.n < 0 {
			c.fail(strictyaml.JoinPath(path, m.key), "%d is negative", m.n)
		}
	}
}

// requirePositive checks that a duration is positive.
func (c *checker) requirePositive(path string, d Duration) {
	if d <= 0 {
		c.fail(path, "must be longer than 0")
	}
}

// checkName checks a name that the operator chooses. It must be present, unique, and readable in
// logs, metric labels and a shell.
func (c *checker) checkName(path, missing, what, name string, seen map[string]string) {
	c.checkVisibleName(path, name)
	c.checkUnique(path, missing, what, name, seen)
}

func (c *checker) checkVisibleName(path, name string) {
	if strings.ContainsFunc(name, func(r rune) bool { return !isVisibleRune(r) || r == ' ' || r == '"' || r == '\\' }) {
		c.fail(path, "%s must have no blanks, quotes, backslashes or control characters", c.positions.QuoteValue(path, name))
	}
}

// checkModelName checks a name that clients send. It may contain spaces and quotes, because some
// engines use file names as model names.
func (c *checker) checkModelName(path, missing, what, name string, seen map[string]string) {
	if !isPresentableName(name) {
		c.fail(path, "%s must have no control characters, and no blanks around it", c.positions.QuoteValue(path, name))
	}
	c.checkUnique(path, missing, what, name, seen)
}

func isVisibleRune(r rune) bool { return unicode.IsPrint(r) && r != unicode.ReplacementChar }

// isPresentableName reports whether a model id contains only printable characters and neither
// starts nor ends with a space.
func isPresentableName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return !isVisibleRune(r) }) && strings.TrimSpace(name) == name
}

// CanBeModelID reports whether name is valid as the id of a configured model. A name with a star is
// not valid, because it would be a pattern.
func CanBeModelID(name string) bool {
	return CanBeAlias(name) && !strings.Contains(name, "*")
}

// CanBeAlias reports whether name is a valid alias. An alias may end with a star.
func CanBeAlias(name string) bool {
	return name != "" && len(name) <= maxNameBytes && isPresentableName(name) &&
		!strings.Contains(strings.TrimSuffix(name, "*"), "*")
}

// maxNameBytes is the maximum length of a name in bytes.
const maxNameBytes = 256

// checkUnique checks that a name is present and not in seen, which maps names to paths.
func (c *checker) checkUnique(path, missing, what, name string, seen map[string]string) {
	first, twice := seen[name]
	switch {
	case name == "":
		c.fail(path, "%s", missing)
		return
	case len(name) > maxNameBytes:
		c.fail(path, "the %s is longer than %d bytes", what, maxNameBytes)
	case twice:
		c.fail(path, "the %s %s is used twice: first %s", what, c.positions.QuoteValue(path, name), c.positions.DescribeLine(first, path))
		return
	}
	seen[name] = path
}

// checkBodyLimits compares a key's body limits with those of the file.
func checkBodyLimits(c checks, path string, l BodyLimits) {
	for _, r := range []struct {
		name   string
		n, all Bytes
	}{
		{"request_body", l.RequestBody, c.file.Limits.RequestBody},
		{"upload_body", l.UploadBody, c.file.Limits.UploadBody},
	} {
		switch at := path + "." + r.name; {
		case r.n == 0:
		case r.n < 1<<10:
			c.check.fail(at, "%s is out of range: at least %s, or 0 for no limit of the key's own", r.n, Bytes(1<<10))
		case r.n > r.all:
			c.check.warn(at, "limits.%s is smaller and applies to all keys: %s", r.name, r.all)
		}
	}
}

func entryPath(list string, i int) string { return strictyaml.EntryPath(list, i) }

func matchesPattern(pattern, name string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	return name == pattern || open && strings.HasPrefix(strings.TrimSuffix(name, "*"), prefix)
}
