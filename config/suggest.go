package config

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean returns `: did you mean "x"?` for the candidate that name is most likely a slip of, or "". The command line uses it for the
// names of commands, as the configuration does for its own.
func DidYouMean(name string, candidates []string) string { return didYouMean(name, candidates) }

// didYouMean returns `: did you mean "x"?` for the candidate that name is most likely a slip of, or "".
func didYouMean(name string, candidates []string) string {
	if best := nearest(name, candidates); best != "" {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	return ""
}

// maxCandidates is how many words are compared: the likely one is worth no wait.
const maxCandidates = 1000

// nearest returns the candidate that differs from name by its spelling only, by at most a third of its letters, or by a
// word that was added or left out; "" when none comes close.
func nearest(name string, candidates []string) string {
	plain := plainWord(name)
	best, least := "", max(1, len(plain)/3)+1
	candidates = candidates[:min(len(candidates), maxCandidates)]
	for _, c := range candidates {
		if d := distance(plain, plainWord(c)); d < least {
			best, least = c, d
		}
	}
	if best != "" || len(plain) < 4 {
		return best
	}
	i := slices.IndexFunc(candidates, func(c string) bool {
		c = plainWord(c)
		return len(c) >= 4 && (strings.Contains(plain, c) || strings.Contains(c, plain))
	})
	if i < 0 {
		return ""
	}
	return candidates[i]
}

// plainWord takes the spelling out of a name: apiKey, api-key and API_KEY are one word.
func plainWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(s[:min(len(s), 64)]))
}

// distance counts the letters to insert, drop, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	previous, current, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range current {
		current[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(next[j]+1, current[j+1]+1, current[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], previous[j-1]+1)
			}
		}
		previous, current, next = current, next, previous
	}
	return current[len(b)]
}

// quoteList writes names as "a, b or c".
func quoteList(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
