package catalog

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/translate/apierr"
)

// View selects the content of the catalog that one client sees.
type View struct {
	Scope string // Public, or the id of the client's key
	// Template is the id of the key that gives the client's token its rights, or empty.
	Template string
	Allow    func(id string) bool // reports whether the scope includes a model
	// Messages adds the members that clients of Anthropic's API read, and an entry for each alias,
	// because these clients choose among names that look like Anthropic's.
	Messages bool
	Codex    bool // adds the list that Codex reads
	// With Messages, the page has at most Limit entries (0: all), which come after or before a
	// given entry.
	Limit         int
	After, Before string
}

// MaxLimit is the maximum Limit that clients may request.
const MaxLimit = 1000

// messagesPage holds the additional members of Anthropic's list.
type messagesPage struct {
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// messagesEntry holds the members of Anthropic's model object that entry lacks.
type messagesEntry struct {
	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// listedName is a name under which a list with View.Messages has a model.
type listedName struct {
	id, display string
	model       int
}

// claudePattern is the alias that maps every Claude name to a model. Claude Code lists only names
// that start with "claude-".
const claudePattern = "claude-*"

// listedNames returns the models' ids, each followed by its aliases. An alias that is a pattern is
// not listed, with one exception: claudePattern is listed as a name that contains the model's own
// id, unless that name leads to another model.
func listedNames(f *config.File, t *routing.Table) (names []listedName) {
	listed := map[string]bool{}
	for i := range f.Models {
		m := &f.Models[i]
		name := or(m.Name, m.ID)
		names = append(names, listedName{m.ID, name, i})
		for _, alias := range m.Aliases {
			display := name + " (" + alias + ")"
			if alias == claudePattern && !strings.HasPrefix(m.ID, "claude-") {
				alias, display = "claude-"+m.ID, name
			}
			route, found := t.Lookup([]byte(alias))
			if found && route.Index == i && !listed[alias] && !strings.HasSuffix(alias, "*") {
				listed[alias] = true
				names = append(names, listedName{alias, display, i})
			}
		}
	}
	return names
}

// namedEntry is an entry under one of the model's names, with the members for clients of
// Anthropic's API.
type namedEntry struct {
	entry entry
	added messagesEntry
}

func (e entry) as(name *listedName) namedEntry {
	e.ID = name.id
	created := time.Unix(e.Created, 0).UTC().Format(time.RFC3339)
	return namedEntry{e, messagesEntry{Type: "model", DisplayName: name.display, CreatedAt: created}}
}

// MarshalJSON writes the members of both embedded structs into one object.
func (e namedEntry) MarshalJSON() ([]byte, error) {
	body, err := encode(e.entry)
	if err != nil {
		return nil, err
	}
	added, err := encode(e.added)
	return append(append(bytes.TrimSuffix(body, []byte("}\n")), ','), added[1:]...), err
}

// cut returns the names on the page that the view requests.
func (v *View) cut(names []listedName) (page []listedName, more bool, err error) {
	at := func(param, id string) (int, error) {
		i := slices.IndexFunc(names, func(n listedName) bool { return n.id == id })
		if i < 0 {
			return 0, apierr.Invalid(param, apierr.CodeInvalidValue, "%s is not the id of a model in this list.", param)
		}
		return i, nil
	}
	limit := v.Limit
	if limit == 0 {
		limit = len(names)
	}
	if v.Before != "" {
		i, err := at("before_id", v.Before)
		return names[max(0, i-limit):i], i > limit, err
	}
	if v.After != "" {
		i, err := at("after_id", v.After)
		if err != nil {
			return nil, false, err
		}
		names = names[i+1:]
	}
	return names[:min(limit, len(names))], len(names) > limit, nil
}

// pageOf returns the members of the list page that shows names.
func pageOf(names []listedName, more bool) *messagesPage {
	p := &messagesPage{HasMore: more}
	if len(names) > 0 {
		p.FirstID, p.LastID = &names[0].id, &names[len(names)-1].id
	}
	return p
}
