package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/plaintext"
	"penstock/proxy/running/reload"
)

// reloadTimeout is long because the edge reads its files and probes new upstreams.
const reloadTimeout = 30 * time.Second

// RequestReload makes an edge reload according to q, and writes the changes to w. If the edge
// applied no configuration, the error lists every problem in the files. If asJSON is true,
// RequestReload writes the edge's response instead of text.
func RequestReload(edge Edge, q reload.Request, asJSON bool, w io.Writer) error {
	path := fmt.Sprintf("/-/reload?force=%t&dry_run=%t&back=%t", q.Force, q.DryRun, q.Back)
	if q.Called != "" {
		path += "&called=" + url.QueryEscape(q.Called)
	}
	body, note, err := edge.sendRequest(fasthttp.MethodPost, path, q.Candidate, reloadTimeout)
	if err != nil {
		return err
	}
	var r reload.Result
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("%s did not answer like a Penstock admin listener", edge.Admin)
	}
	if asJSON {
		return errors.Join(printJSONLine(w, body), printReloadResult(&r, io.Discard))
	}
	err = printReloadResult(&r, w)
	printWarning(note, w)
	return err
}

func printReloadResult(r *reload.Result, w io.Writer) error {
	var b strings.Builder
	switch {
	case r.KeysInForce && r.DryRun:
		b.WriteString("it would be refused: its keys would be in force, its models would not\n")
	case !r.OK && r.DryRun:
		b.WriteString("it would be refused\n")
	case r.KeysInForce:
		return fmt.Errorf("keys are in force, models are not: of all the rest version %d stays in use:\n%s",
			r.Version, plaintext.CleanText(strings.Join(r.Problems, "\n")))
	case !r.OK:
		return fmt.Errorf("not reloaded, version %d stays in use:\n%s", r.Version,
			plaintext.CleanText(strings.Join(r.Problems, "\n")))
	case r.Unchanged && len(r.Restart) > 0:
		fmt.Fprintf(&b, "nothing that a reload can change: version %d stays in use\n", r.Version)
	case r.Unchanged:
		fmt.Fprintf(&b, "unchanged: the file is in force already, as version %d since %s\n", r.Version,
			r.Since.Local().Format(time.DateTime))
	case r.DryRun:
		fmt.Fprintf(&b, "not applied: version %d stays in use\n", r.Version)
	default:
		fmt.Fprintf(&b, "reloaded in %.0f ms: version %d\n", r.Seconds*1000, r.Version)
	}
	for _, p := range r.Warnings {
		fmt.Fprintf(&b, "%s\n", p)
	}
	for _, c := range r.Capacity {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	for _, c := range append(r.Changes, r.Restart...) {
		fmt.Fprintf(&b, "  %s\n", c)
	}
	if _, err := io.WriteString(w, plaintext.CleanText(b.String())); err != nil || r.OK {
		return err
	}
	var problems []error
	for _, p := range r.Problems {
		problems = append(problems, errors.New(plaintext.CleanText(p)))
	}
	return errors.Join(problems...)
}
