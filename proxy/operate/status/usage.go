package status

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"time"

	"penstock/proxy/fleet"
	"penstock/proxy/telemetry/observe"
)

// UsageView selects the contents of a usage page.
type UsageView struct {
	Fleet  bool
	ByUser bool
	Users  bool // whether there is a page by end user
}

func (v UsageView) queryString() string {
	query := url.Values{}
	if v.Fleet {
		query.Set("fleet", "true")
	}
	if v.ByUser {
		query.Set("by", "user")
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

type usageRow struct {
	Key, Name        string
	Day, Month, Ever observe.UsageAmount
}

type titledAmount struct {
	What string
	observe.UsageAmount
}

func titledAmounts(r usageRow) []titledAmount {
	return []titledAmount{{"Today", r.Day}, {"This month", r.Month}, {"All", r.Ever}}
}

func (p *usageRows) addUsage(key, name string, total observe.UsageAmount, days []observe.DayUsage) {
	row := usageRow{Key: key, Name: name, Ever: total}
	for _, d := range days {
		if d.Day == p.today {
			row.Day.Add(d.UsageAmount)
		}
		if d.Day[:len("2006-01")] == p.today[:len("2006-01")] {
			row.Month.Add(d.UsageAmount)
		}
	}
	p.totalRow.Day.Add(row.Day)
	p.totalRow.Month.Add(row.Month)
	p.rows = append(p.rows, row)
}

type usageRows struct {
	today    string
	totalRow usageRow
	rows     []usageRow
}

// UsagePage renders the usage of keys and models, or of end users. The largest usage comes first.
func UsagePage(r *observe.UsageReport, f *fleet.State, view UsageView) ([]byte, error) {
	p := usageRows{today: r.Now.UTC().Format(time.DateOnly), totalRow: usageRow{Ever: r.Total}}
	for i := range r.Keys {
		k := &r.Keys[i]
		for _, m := range k.Models {
			p.addUsage(k.Key, m.Model, m.Total, m.Days)
		}
		for _, u := range k.Users {
			p.addUsage(k.Key, cmp.Or(u.User, "others"), u.Total, u.Days)
		}
	}
	slices.SortFunc(p.rows, func(a, b usageRow) int {
		return cmp.Or(cmp.Compare(b.Month.Tokens(), a.Month.Tokens()), cmp.Compare(b.Ever.Tokens(), a.Ever.Tokens()),
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.Name, b.Name))
	})
	turned := UsageView{Fleet: view.Fleet, ByUser: !view.ByUser}
	return renderTemplate("usage", struct {
		Now, Since time.Time
		Fleet      *fleet.State
		OfFleet    bool
		View       UsageView
		// Query is the page's query string. Turned is the query string for the other grouping.
		Query, Turned string
		Rows          []usageRow
		All           usageRow
		CSS           template.CSS
	}{
		r.Now, r.Since, f, view.Fleet, view, view.queryString(), turned.queryString(),
		p.rows, p.totalRow, pageCSS,
	})
}
