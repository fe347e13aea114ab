package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// checker collects the problems of Validate and ties each to its place in the source.
type checker struct {
	file      *File
	known     Known
	problems  Problems
	found     [2]int         // how many: errors, warnings
	suggested int            // how often a likely word was looked for
	byName    map[string]int // where in the file the first upstream of a name is; see upstream
}

// full reports that nothing more needs to be looked for: enough is wrong.
func (c *checker) full() bool { return c.found[0] >= maxProblems }

// upstream returns where in the file an upstream is; -1: nowhere.
func (c *checker) upstream(name string) int {
	if c.byName == nil {
		c.byName = make(map[string]int, len(c.file.Upstreams))
		for i := len(c.file.Upstreams) - 1; i >= 0; i-- {
			c.byName[c.file.Upstreams[i].Name] = i
		}
	}
	if i, ok := c.byName[name]; ok {
		return i
	}
	return -1
}

// fail reports what is wrong with the value at path, unless reading it failed already: then this would be its echo.
func (c *checker) fail(path, format string, args ...any) { c.report(false, path, format, args) }

func (c *checker) report(warning bool, path, format string, args []any) {
	if c.readBadly(path) {
		return
	}
	n := &c.found[0]
	if warning {
		n = &c.found[1]
	}
	if *n++; *n > maxProblems {
		return
	}
	m := c.mark(path)
	p := m.problem(fmt.Sprintf(format, args...))
	if m.src != nil {
		p.Excerpt = m.src.excerpt(p.Line, p.Column)
	}
	p.Warning = warning
	c.problems = append(c.problems, p)
}

func (c *checker) warn(path, format string, args ...any) { c.report(true, path, format, args) }

// mark returns where path stands, or the nearest thing around it that stands somewhere. What is missing from the file as a
// whole has no line. The path of the mark is numbered as in the file it is in.
func (c *checker) mark(path string) mark {
	if c.file.origin == nil {
		return mark{path: path}
	}
	marks := c.file.origin.marks
	for around := path; ; {
		if m, ok := marks[around]; ok {
			m.path += path[len(around):]
			return m
		}
		i := strings.LastIndexAny(around, ".[")
		if i < 0 {
			return mark{src: marks[""].src, path: path}
		}
		around = around[:i]
	}
}

// anyBroken reports whether the value at path, or one in it, was reported while reading.
func (c *checker) anyBroken(path string) bool {
	if c.file.origin == nil {
		return false
	}
	for broken := range c.file.origin.broken {
		if rest, ok := strings.CutPrefix(broken, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return false
}

// readBadly reports whether the value at path, or one around it, was reported while reading.
func (c *checker) readBadly(path string) bool {
	if c.file.origin == nil {
		return false
	}
	for {
		if c.file.origin.broken[path] {
			return true
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return c.file.origin.broken[""]
		}
		path = path[:i]
	}
}

// namesUnsure reports whether the names in a list cannot be relied on, because one of them was not read: a reference that
// leads nowhere may then be right.
func (c *checker) namesUnsure(list string, fields ...string) bool {
	if c.file.origin == nil {
		return false
	}
	for path := range c.file.origin.broken {
		rest, ok := strings.CutPrefix(path, list)
		if !ok {
			continue
		}
		if rest == "" {
			return true
		}
		_, member, inside := strings.Cut(rest, "].")
		if strings.HasPrefix(rest, "[") && (!inside || slices.ContainsFunc(fields, func(f string) bool { return strings.HasPrefix(member, f) })) {
			return true
		}
	}
	return false
}

// show quotes a value of the file for a message; what a variable held is shown as the variable.
func (c *checker) show(path, value string) string {
	if c.file.origin != nil {
		return c.file.origin.marks[path].show(value)
	}
	return mark{}.show(value)
}

// place says where another value stands, as seen from path.
func (c *checker) place(path, from string) string {
	m, here := c.mark(path), c.mark(from)
	switch {
	case m.line == 0:
		return "at " + path
	case m.src != here.src:
		return fmt.Sprintf("on line %d of %s", m.line, m.src.name)
	}
	return fmt.Sprintf("on line %d", m.line)
}

// oneOf checks a word of a closed set; path is where it stands and set the path of its schema.
func (c *checker) oneOf(path, set, what, value string) {
	if allowed := words[set]; !slices.Contains(allowed, value) {
		c.fail(path, "%s is not %s%s", c.show(path, value), what, hint(value, allowed))
	}
}

// eachOneOf checks a list of words of a closed set, each of which may stand there once.
func (c *checker) eachOneOf(path, set, what string, values []string) {
	for i, v := range values {
		if c.full() {
			return
		}
		at := element(path, i)
		c.oneOf(at, set, what, v)
		if first := slices.Index(values, v); first < i {
			c.fail(at, "%s is listed twice", c.show(at, v))
		}
	}
}

// didYouMean is didYouMean while that may still be told.
func (c *checker) didYouMean(name string, candidates func() []string) string {
	if c.suggested++; c.suggested > 2*maxProblems {
		return ""
	}
	return didYouMean(name, candidates())
}

// hint names the likely word, or all there are.
func hint(value string, allowed []string) string {
	if likely := nearest(value, allowed); likely != "" {
		return fmt.Sprintf(": did you mean %q?", likely)
	}
	return ": choose " + quoteList(allowed)
}

// number checks that n is from least to most.
func (c *checker) number(path string, n, least, most int) {
	if n < least || n > most {
		c.fail(path, "%d is out of range: %d to %d", n, least, most)
	}
}

// atLeast0 checks a number that has no upper bound of its own.
func (c *checker) atLeast0(path string, n int64) {
	if n < 0 {
		c.fail(path, "%d is negative", n)
	}
}

// above0 checks a duration that has no meaning when it is zero.
func (c *checker) above0(path string, d Duration) {
	if d <= 0 {
		c.fail(path, "must be longer than 0")
	}
}

func element(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }
