package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// known is the file of exceptions: "kind name number" for what is above its limit today and has to fall, "kind name reason"
// for what stays.
type known struct {
	path   string
	head   []string // its comment
	number map[string]int
	reason map[string]string
}

func exceptions(root string) (*known, error) {
	k := &known{path: filepath.Join(root, "proxy/e2e/tree.txt"), number: map[string]int{}, reason: map[string]string{}}
	text, err := os.ReadFile(k.path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			k.head = append(k.head, line)
			continue
		}
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			return nil, fmt.Errorf("%s:%d: %q is not \"kind name number\" or \"kind name reason\"", k.path, i+1, line)
		}
		key := f[0] + " " + f[1]
		n, err := strconv.Atoi(f[2])
		if most, twice := k.number[key]; err == nil && twice {
			n = min(n, most) // two lines of a merge
		}
		if err == nil {
			k.number[key] = n
		} else {
			k.reason[key] = f[2]
		}
	}
	return k, nil
}

// judge lists what is above its limit without an exception, and the exceptions that are more than is needed.
func (k *known) judge(all []*measure) []string {
	var broken []string
	seen := map[string]bool{}
	for _, m := range all {
		seen[m.key()] = true
		most, numbered := k.number[m.key()]
		switch {
		case k.reason[m.key()] != "":
			if !m.over {
				broken = append(broken, fmt.Sprintf("%s %d is within the limit: delete its line in %s", m.key(), m.n, filepath.Base(k.path)))
			}
		case m.over && !numbered:
			broken = append(broken, fmt.Sprintf("%s %d is above the limit: %s", m.key(), m.n, strings.Join(m.where[:min(len(m.where), 4)], " ")))
		case m.over && m.n > most:
			broken = append(broken, fmt.Sprintf("%s %d has grown: it was %d: %s", m.key(), m.n, most, strings.Join(m.where[:min(len(m.where), 4)], " ")))
		case numbered && (!m.over || m.n < most):
			broken = append(broken, fmt.Sprintf("%s %d is better than its exception of %d: run go -C .tools run ./shape -lower", m.key(), m.n, most))
		}
	}
	for _, key := range k.keys() {
		if !seen[key] {
			broken = append(broken, key+" does not exist: run go -C .tools run ./shape -lower")
		}
	}
	return broken
}

// lower writes the file anew with today's numbers where they are smaller, and without the lines that nothing needs.
func (k *known) lower(all []*measure) error {
	today := map[string]*measure{}
	for _, m := range all {
		today[m.key()] = m
	}
	lines := slices.Clone(k.head)
	for _, key := range k.keys() {
		m := today[key]
		switch {
		case m == nil || !m.over:
		case k.reason[key] != "":
			lines = append(lines, key+" "+k.reason[key])
		default:
			lines = append(lines, fmt.Sprintf("%s %d", key, min(k.number[key], m.n)))
		}
	}
	return os.WriteFile(k.path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

func (k *known) keys() []string {
	var keys []string
	for key := range k.number {
		keys = append(keys, key)
	}
	for key := range k.reason {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
