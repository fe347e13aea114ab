package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"penstock/proxy/front/plaintext"
	"penstock/proxy/telemetry/observe"
)

// UsageOptions configure RequestUsage.
type UsageOptions struct {
	Edge   Edge
	Fleet  bool
	ByUser bool
	JSON   bool
	// Period is a day (2026-01-31) or a month (2026-01) in UTC. If empty, all usage is shown.
	Period string
}

const usageTimeout = 15 * time.Second

// RequestUsage requests the usage of keys and models, and writes it.
func RequestUsage(o UsageOptions, w io.Writer) error {
	query := url.Values{}
	if o.Fleet {
		query.Set("fleet", "true")
	}
	if o.ByUser {
		query.Set("by", "user")
	}
	path := url.URL{Path: "/-/usage", RawQuery: query.Encode()}
	body, err := o.Edge.get(path.String(), usageTimeout)
	if err != nil {
		return err
	}
	var r observe.UsageReport
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("%s did not answer like a Penstock admin listener", o.Edge.Admin)
	}
	if o.Period != "" {
		r = *r.ForPeriod(o.Period)
	}
	if o.JSON {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(append(plaintext.EscapeJSON(text), '\n'))
		return err
	}
	return printUsageTable(&r, o.ByUser, w)
}

// ParseUsagePeriod checks the arguments of --day and --month, and returns the period.
func ParseUsagePeriod(day, month string) (string, error) {
	if day != "" && month != "" {
		return "", errors.New("--day and --month exclude each other")
	}
	if _, err := time.Parse(time.DateOnly, day); day != "" && err != nil {
		return "", errors.New("--day is a day such as 2026-01-31")
	}
	if _, err := time.Parse("2006-01", month); month != "" && err != nil {
		return "", errors.New("--month is a month such as 2026-01")
	}
	return day + month, nil
}

// printUsageTable writes a table. Its last line is the total.
func printUsageTable(r *observe.UsageReport, byUser bool, w io.Writer) error {
	var out bytes.Buffer
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(key, model string, a *observe.UsageAmount) {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%d\t%d\t%s\t\n", key, model, a.Calls, a.Prompt, a.Cached, a.Completion, a.Spend)
	}
	column := "model"
	if byUser {
		column = "user"
	}
	fmt.Fprintf(t, "key\t%s\tcalls\tprompt\tcached\tcompletion\tspend\t\n", column)
	for i := range r.Keys {
		k := &r.Keys[i]
		name := k.Key
		if name == "" {
			name = "(no key)"
		}
		for j := range k.Models {
			line(name, k.Models[j].Model, &k.Models[j].Total)
		}
		for j := range k.Users {
			line(name, cmp.Or(k.Users[j].User, "(others)"), &k.Users[j].Total)
		}
	}
	line("total", "", &r.Total)
	_ = t.Flush() // writing to a buffer never fails
	for text := range strings.Lines(out.String()) {
		if _, err := io.WriteString(w, strings.TrimRight(text, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
