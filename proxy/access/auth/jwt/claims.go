package jwt

import (
	"slices"
	"strings"
)

// Text returns the text of a claim, or "" if there is no such claim. A name with dots, such as
// realm_access.roles, is the name of a claim or the path to a claim.
func (c Claims) Text(name string) string {
	text, _ := find(c.members, name).(string)
	return text
}

// Any reports whether a claim contains a text for which is returns true. The claim may be a text, a
// list of texts, or an object whose member names are the texts. A text of scopes is a list
// separated by blanks (RFC 8693).
func (c Claims) Any(name string, is func(string) bool) bool {
	return slices.ContainsFunc(c.texts(name), is)
}

func (c Claims) texts(name string) []string {
	value := find(c.members, name)
	if text, ok := value.(string); ok && (name == "scope" || name == "scp") {
		return strings.Fields(text)
	}
	if members, ok := value.(map[string]any); ok {
		return given(members)
	}
	return listed(value)
}

// listed returns a text, or the texts of a list.
func listed(value any) (out []string) {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		for _, v := range value {
			if text, ok := v.(string); ok {
				out = append(out, text)
			}
		}
	}
	return out
}

// given returns the names that an object grants. Zitadel writes roles as such an object: {"admin":
// {"ORG": "DOMAIN"}}. A member grants its name if its value is a non-empty object or true. A member
// with any other value grants nothing. MaxToken limits the number of members.
func given(members map[string]any) (names []string) {
	for name, value := range members {
		inner, ok := value.(map[string]any)
		if value == true || ok && len(inner) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// find follows a name through objects. A member with the complete name takes precedence over a path
// along the name's dots. Of two paths, the one with the shorter first name takes precedence. Each
// object in a token is visited at most once, because the path to the object determines how much of
// the name is left.
func find(members map[string]any, name string) any {
	if value, ok := members[name]; ok {
		return value
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := members[name[:i]].(map[string]any); ok {
			if value := find(inner, name[i+1:]); value != nil {
				return value
			}
		}
	}
	return nil
}
