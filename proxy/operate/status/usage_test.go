package status

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"penstock/config/money"
	"penstock/proxy/telemetry/observe"
)

// TestUsagePage checks that each key and model has a row with its usage today, this month and in
// total. The largest usage this month comes first, and the totals are at the top.
func TestUsagePage(t *testing.T) {
	now := time.Date(2026, 3, 10, 1, 0, 0, 0, time.FixedZone("east", 2*3600)) // still the 9th in UTC
	var u observe.Usage
	row := func(key string, day int, tokens uint64) observe.UsageRow {
		return observe.UsageRow{
			Key: key, Model: "m<b>", Day: observe.DayOf(time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC)),
			UsageAmount: observe.UsageAmount{Calls: 1, Prompt: tokens, Completion: 7, Spend: money.Amount{Micros: int64(tokens) * 1e6}},
		}
	}
	u.Restore(now, []observe.UsageRow{row("small", 9, 10), row("small", -20, 5000), row("big", 8, 100), row("big", 9, 200)})
	body, err := UsagePage(u.Report(now, now), nil, UsageView{})
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	if strings.Contains(text, "m<b>") || strings.Contains(text, "usage?fleet=true") {
		t.Errorf("markup in a name, or the usage of a fleet without one:\n%s", text)
	}
	_, rows, _ := strings.Cut(text, "<tbody>")
	rows, _, _ = strings.Cut(rows, "</tbody>")
	got := strings.Split(regexp.MustCompile("<[^>]*>").ReplaceAllString(rows, " "), "\n")[1:]
	want := []string{
		"all 2 210 14 210 3 310 21 310 4 5310 28 5310",
		"big m&lt;b&gt; 1 200 7 200 2 300 14 300 2 300 14 300",
		"small m&lt;b&gt; 1 10 7 10 1 10 7 10 2 5010 14 5010",
	}
	for i, w := range want {
		if i >= len(got) || strings.Join(strings.Fields(got[i]), " ") != w {
			t.Errorf("row %d: %q, want %q", i, got, w)
		}
	}
}

// TestUsagePageByUser checks that the page shows end users instead of models, and that one row
// combines all unlisted users of a key. The two pages must link to each other.
func TestUsagePageByUser(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	var u observe.Usage
	row := func(model, user string, tokens uint64) observe.UsageRow {
		return observe.UsageRow{Key: "k", Model: model, User: user, Day: observe.DayOf(now), UsageAmount: observe.UsageAmount{Calls: 1, Prompt: tokens}}
	}
	u.Restore(now, []observe.UsageRow{row("m", "", 100), row("", "0af3", 30)})
	for _, c := range []struct {
		view       UsageView
		has, hasNo []string
	}{
		{UsageView{}, []string{">m</td>", `href="/-/usage"`}, []string{"0af3", "end user", ">others<"}},
		{UsageView{Users: true}, []string{">m</td>", `href="/usage?by=user">By end user`, `href="/-/usage"`}, []string{"0af3", ">others<"}},
		{UsageView{Users: true, ByUser: true}, []string{">0af3</td>", ">others</td>", `href="/usage">By model`, `href="/-/usage?by=user"`, ">70</td>", ">100</td>"}, []string{">m</td>"}},
		{UsageView{Users: true, Fleet: true}, []string{`href="/usage?by=user&amp;fleet=true">By end user`, `href="/-/usage?fleet=true"`}, nil},
		{UsageView{Users: true, ByUser: true, Fleet: true}, []string{`href="/usage?fleet=true">By model`, `href="/-/usage?by=user&amp;fleet=true"`}, nil},
	} {
		report := u.Report(now, now)
		if c.view.ByUser {
			report = u.ReportUsers(now, now)
		}
		body, err := UsagePage(report, nil, c.view)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !strings.Contains(string(body), want) {
				t.Errorf("%+v: %s is missing in\n%s", c.view, want, body)
			}
		}
		for _, no := range c.hasNo {
			if strings.Contains(string(body), no) {
				t.Errorf("%+v: %s is in\n%s", c.view, no, body)
			}
		}
	}
}
