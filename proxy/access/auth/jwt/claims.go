package jwt

import (
	"slices"
	"strings"
)

// StringValue returns the string value of a claim. If the claim is not a string, it returns "". A
// name with dots, such as realm_access.roles, is either the name of a claim or a path to a nested
// claim.
func (c Claims) StringValue(name string) string {
	text, _ := findNested(c.members, name).(string)
	return text
}

// HasMatchingValue reports whether the function is returns true for at least one of the strings in
// a claim. A claim may be a string, a list of strings, or an object whose member names are the
// strings. The scope and scp claims are lists separated by spaces (RFC 8693).
func (c Claims) HasMatchingValue(name string, is func(string) bool) bool {
	return slices.ContainsFunc(c.stringValues(name), is)
}

func (c Claims) stringValues(name string) []string {
	value := findNested(c.members, name)
	if text, ok := value.(string); ok && (name == "scope" || name == "scp") {
		return strings.Fields(text)
	}
	if members, ok := value.(map[string]any); ok {
		return grantedMembers(members)
	}
	return stringList(value)
}

func stringList(value any) (out []string) {
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

// grantedMembers returns the names of the object members whose value is true or a non-empty object.
// Zitadel encodes roles like this: {"admin": {"ORG": "DOMAIN"}}. MaxToken limits the number of
// members.
func grantedMembers(members map[string]any) (names []string) {
	for name, value := range members {
		inner, ok := value.(map[string]any)
		if value == true || ok && len(inner) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// findNested resolves a name in nested objects. A member with the complete name takes precedence
// over a path formed by the dots in the name. If multiple paths exist, the path with the shortest
// first name takes precedence. findNested visits each object at most once, because the path to an
// object determines the remaining name.
func findNested(members map[string]any, name string) any {
	if value, ok := members[name]; ok {
		return value
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := members[name[:i]].(map[string]any); ok {
			if value := findNested(inner, name[i+1:]); value != nil {
				return value
			}
		}
	}
	return nil
}
