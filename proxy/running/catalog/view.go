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

// View selects the part of the catalog that a client gets.
type View struct {
	Scope string // PublicScope, or the id of the client's key
	// Template is the id of the configured key that defines the rights of the client's token. If
	// the client has no token, Template is empty.
	Template string
	Allow    func(id string) bool // reports whether the client may see the model
	// Messages adds the members for clients of Anthropic's API. It also adds an entry per alias,
	// because these clients choose among names that look like names of Anthropic's models.
	Messages bool
	Codex    bool
	Slots    bool // adds the number of slots of all models, which may share engines
	// With Messages, the page has at most Limit entries (0 means all). The entries start after the
	// entry After, or end before the entry Before.
	Limit         int
	After, Before string
}

// MaxLimit is the maximum value of View.Limit.
const MaxLimit = 1000

// messagesPage contains the additional members of a list for clients of Anthropic's API.
type messagesPage struct {
	HasMore bool    `json:"has_more"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
}

// messagesEntry contains the members of Anthropic's model object that modelEntry does not have.
type messagesEntry struct {
	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// listedName is a model name in a list with View.Messages.
type listedName struct {
	id, display string
	model       int
}

// claudePattern is the alias that maps every Claude model name to a model. Claude Code lists only
// names that start with "claude-".
const claudePattern = "claude-*"

// listedNames returns the id of each model, followed by the model's aliases. The only pattern that
// is listed is claudePattern. It is listed as "claude-" followed by the model's id, unless another
// model has that name.
func listedNames(f *config.File, t *routing.Table) (names []listedName) {
	listed := map[string]bool{}
	for i := range f.Models {
		m := &f.Models[i]
		name := firstNonEmpty(m.Name, m.ID)
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

// namedEntry is a model's entry under one of its names, with the additional members for clients of
// Anthropic's API.
type namedEntry struct {
	entry modelEntry
	added messagesEntry
}

func (e modelEntry) underName(name *listedName) namedEntry {
	e.ID = name.id
	created := time.Unix(e.Created, 0).UTC().Format(time.RFC3339)
	return namedEntry{e, messagesEntry{Type: "model", DisplayName: name.display, CreatedAt: created}}
}

// MarshalJSON merges the members of both structs into one object.
func (e namedEntry) MarshalJSON() ([]byte, error) {
	body, err := encodeJSON(e.entry)
	if err != nil {
		return nil, err
	}
	added, err := encodeJSON(e.added)
	return append(append(bytes.TrimSuffix(body, []byte("}\n")), ','), added[1:]...), err
}

func (v *View) selectPage(names []listedName) (page []listedName, more bool, err error) {
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

func newMessagesPage(names []listedName, more bool) *messagesPage {
	p := &messagesPage{HasMore: more}
	if len(names) > 0 {
		p.FirstID, p.LastID = &names[0].id, &names[len(names)-1].id
	}
	return p
}
