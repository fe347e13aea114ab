package status

import (
	"fmt"
	"math"
	"strings"
	"time"
)

func acceptingUpstreamsText(n int) string {
	if n == 1 {
		return "1 upstream takes calls"
	}
	return fmt.Sprintf("%d upstreams take calls", n)
}

// shortenList truncates a list, so that a sentence stays readable even if an entire fleet has
// problems.
func shortenList(all []string) []string {
	const most = 3
	if len(all) <= most {
		return all
	}
	return append(append([]string{}, all[:most]...), fmt.Sprintf("%d more are in trouble", len(all)-most))
}

func joinNames(names []string) string {
	const most = 4
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func pluralize(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func secondsDuration(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// FormatDuration formats a duration for a reader: 12 s, 4 min, 2 h 5 min, 3 d 2 h.
func FormatDuration(d time.Duration) string {
	switch s := int(d.Seconds()); {
	case s < 60:
		return fmt.Sprintf("%d s", max(0, s))
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 24*3600:
		return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
}

// percentOf returns n as a percentage of all. Sentences, tables and the page use the same rounding.
func percentOf(n, all int) int { return sharePercent(float64(n) / float64(max(1, all))) }

// sharePercent returns a share as a percentage. A share of 1 is 100 %.
func sharePercent(share float64) int { return int(math.Round(100 * share)) }

func roundTenth(v float64) float64 { return math.Round(10*v) / 10 }

func poolLabel(name string) string {
	if strings.HasPrefix(name, "shared") {
		return ""
	}
	return name
}

func describeFeature(feature string) string {
	switch feature {
	case "forced_tool":
		return "a forced tool (tool_choice)"
	case "json_schema":
		return "a JSON schema"
	case "effort":
		return "a reasoning effort"
	case "tools", "images":
		return feature
	}
	return "the operation " + feature
}
