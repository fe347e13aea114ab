package engineerror

import (
	"strconv"
	"strings"
)

func isOverflowMessage(lower string) bool { return containsAny(lower, overflowPhrases) }

// overflowSizes finds the sizes of the request and the context in a message. If the message
// reports both sizes and the prompt alone would fit, prompt and answer are these two sizes.
// Otherwise prompt is the size of the whole request, and answer is 0. All results are 0 unless
// the message says that the request exceeds the context.
func overflowSizes(lower string) (prompt, answer, most int) {
	most = sizeAfterAnyMark(lower, contextSizePrefixes)
	prompt, answer = sizeAfterAnyMark(lower, inputSizePrefixes), sizeAfterAnyMark(lower, answerSizePrefixes)
	if prompt > 0 && prompt < most && prompt+answer > most {
		return prompt, answer, most
	}
	for _, mark := range promptSizePrefixes {
		prompt = max(prompt, sizeAfter(lower, mark))
	}
	if most == 0 || prompt <= most {
		return 0, 0, 0
	}
	return prompt, 0, most
}

// sizeAfterAnyMark returns the number that follows one of the marks. Earlier marks in the list
// have priority. If no mark precedes a number, it returns 0.
func sizeAfterAnyMark(s string, marks []string) int {
	for _, mark := range marks {
		if size := sizeAfter(s, mark); size > 0 {
			return size
		}
	}
	return 0
}

func sizeAfter(s, mark string) int {
	for {
		i := strings.Index(s, mark)
		if i < 0 {
			return 0
		}
		s = s[i+len(mark):]
		n := 0
		for n < len(s) && n < 9 && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		size, err := strconv.Atoi(s[:n])
		if err == nil && !strings.HasPrefix(s[n:], " input char") && !strings.HasPrefix(s[n:], " char") {
			return size
		}
	}
}
