package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxLineBytes is the maximum length of a line. A line may be a request with images or an answer.
const maxLineBytes = 64 << 20

type request struct {
	CustomID string          `json:"custom_id"`
	Method   string          `json:"method"`
	URL      string          `json:"url"`
	Body     json.RawMessage `json:"body"`
	number   int
}

// validationProblem describes what is wrong with a line, without quoting it. If the line is valid,
// validationProblem returns "".
func (r *request) validationProblem() string {
	var body struct {
		Stream json.RawMessage `json:"stream"`
	}
	switch {
	case r.CustomID == "":
		return "it has no custom_id"
	case r.Method != "POST":
		return "its method is not POST"
	case !strings.HasPrefix(r.URL, "/v1/") || strings.ContainsAny(r.URL, "?#\\ \r\n") || strings.Contains(r.URL, ".."):
		return "its url is not the path of an endpoint, such as /v1/chat/completions"
	case len(r.Body) == 0 || r.Body[0] != '{' || json.Unmarshal(r.Body, &body) != nil:
		return "its body is not an object"
	case string(body.Stream) == "true":
		return "its body asks for a stream: a batch has only complete answers"
	}
	return ""
}

const maxProblems = 20

// checkInput reads the entire input and returns the number of lines. The error lists all invalid
// lines.
func checkInput(path string) (lines int, err error) {
	seen := map[string]int{}
	var problems []error
	err = eachLine(path, func(number int, line []byte) error {
		var r request
		what := "it is not JSON"
		switch err := json.Unmarshal(line, &r); {
		case json.Valid(line) && bytes.TrimSpace(line)[0] != '{':
			what = "it is JSON, but not an object"
		case json.Valid(line) && err != nil:
			what = "its custom_id, method or url is not a string"
		case err == nil:
			if what = r.validationProblem(); what == "" && seen[r.CustomID] > 0 {
				what = fmt.Sprintf("its custom_id is that of line %d", seen[r.CustomID])
			}
		}
		if what != "" {
			if problems = append(problems, fmt.Errorf("%s:%d: %s", path, number, what)); len(problems) == maxProblems {
				return errors.Join(problems...)
			}
			return nil
		}
		seen[r.CustomID] = number
		lines++
		return nil
	})
	if err == nil {
		err = errors.Join(problems...)
	}
	return lines, err
}

func eachLine(path string, f func(number int, line []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return scanLines(file, path, f)
}

func scanLines(from io.Reader, path string, f func(number int, line []byte) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 64<<10), maxLineBytes)
	for number := 1; lines.Scan(); number++ {
		line := lines.Bytes()
		if number == 1 {
			line = []byte(strings.TrimPrefix(string(line), "\ufeff"))
		}
		if len(strings.TrimSpace(string(line))) == 0 {
			continue
		}
		if err := f(number, line); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
