package main

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Patterns of what comments contain.
var (
	dottedPattern      = regexp.MustCompile(`(^|[^\w./:@-])\*?([A-Za-z_]\w*)\.([A-Za-z]\w*)(?:\.([A-Za-z]\w*))?`)
	linkPattern        = regexp.MustCompile(`(?:^|[\s(])\[\*?([A-Z]\w*[a-z]\w*)\](?:[^(\[:]|$)`)
	camelPattern       = regexp.MustCompile(`(?:^|[^\w./%$"<&#=-])([A-Z]*[a-z]+[0-9]*[A-Z]\w*)`)
	midSentencePattern = regexp.MustCompile(`[a-z,;)] [A-Z][a-z]\w*(?:$|[^\w…])`)
	filePattern        = regexp.MustCompile(`(?:^|[^\w./-])(\w+\.go)(?:$|[^\w/])`)
	packagePattern     = regexp.MustCompile(`\b[Pp]ackages? (\w+)`)
	quotedPattern      = regexp.MustCompile(`"[^"]*"`)
	directivePattern   = regexp.MustCompile(`^//[a-z]+:`)
	firstPattern       = regexp.MustCompile(`^([A-Za-z_]\w*) (\w+)`)
)

// check returns what the comments and pages name although it does not exist, in the order of places.
func (m *module) check() (findings []string) {
	for _, p := range m.packages {
		for _, f := range p.files {
			findings = append(findings, m.checkFile(p, f)...)
		}
	}
	for name, text := range m.pages {
		p := m.packages[path.Dir(name)]
		if p == nil {
			p = &pkg{}
		}
		for i, line := range strings.Split(text, "\n") {
			for _, word := range m.staleReferences(p, &file{}, line) {
				findings = append(findings, fmt.Sprintf("%s:%d: %s does not exist", name, i+1, word))
			}
		}
	}
	slices.Sort(findings)
	return slices.Compact(findings)
}

// checkFile returns the findings in the comments of a file.
func (m *module) checkFile(p *pkg, f *file) (findings []string) {
	for _, group := range f.Comments {
		before := ""
		for _, comment := range group.List {
			if directivePattern.MatchString(comment.Text) {
				continue
			}
			at := m.fset.Position(comment.Pos())
			for i, line := range strings.Split(comment.Text, "\n") {
				line = quotedPattern.ReplaceAllString(line, `"`)
				for _, word := range slices.Concat(m.staleReferences(p, f, line), staleLinks(p, line), staleFiles(p, line), m.staleWords(p, before, line)) {
					findings = append(findings, fmt.Sprintf("%s:%d: %s does not exist", at.Filename, at.Line+i, word))
				}
				before = line
			}
		}
	}
	ast.Inspect(f.File, func(n ast.Node) bool {
		doc, names := documented(n)
		if word := staleFirstWord(p, doc, names); word != "" {
			at := m.fset.Position(doc.Pos())
			findings = append(findings, fmt.Sprintf("%s:%d: %s is documented as %s", at.Filename, at.Line, names[0], word))
		}
		return true
	})
	return findings
}

// documented returns the doc comment of a declaration and the names that it declares.
func documented(n ast.Node) (doc *ast.CommentGroup, names []string) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Doc, []string{n.Name.Name}
	case *ast.GenDecl:
		for _, spec := range n.Specs {
			names = append(names, specNames(spec)...)
		}
		return n.Doc, names
	case *ast.TypeSpec:
		return n.Doc, specNames(n)
	case *ast.ValueSpec:
		return n.Doc, specNames(n)
	case *ast.Field:
		for _, name := range n.Names {
			names = append(names, name.Name)
		}
		return n.Doc, names
	}
	return nil, nil
}

// staleReferences returns the references in a line, such as pkg.Name and Type.Member, that name
// nothing.
func (m *module) staleReferences(p *pkg, f *file, line string) (stale []string) {
	for _, found := range dottedPattern.FindAllStringSubmatch(line, -1) {
		head, name, member := found[2], found[3], found[4]
		reference := strings.TrimSuffix(head+"."+name+"."+member, ".")
		if foreign[head] {
			continue
		}
		if isUpper(head) {
			if !m.hasMember(p, head, name) {
				stale = append(stale, reference)
			}
			continue
		}
		if isUpper(name) && !m.hasName(p, f, head, name, member) {
			stale = append(stale, reference)
		}
	}
	return stale
}

// hasName reports whether head, written like a package, has the name and the name has the member. It
// also returns true if head is not a package of this module.
func (m *module) hasName(p *pkg, f *file, head, name, member string) bool {
	candidates := m.byName[head]
	if importPath, ok := f.imports[head]; ok {
		folder := m.folderOf(importPath)
		if folder == "-" {
			return true
		}
		candidates = []*pkg{m.packages[folder]}
	} else if m.external[head] {
		return true
	}
	if len(candidates) == 0 {
		return true
	}
	for _, c := range candidates {
		if c == nil || c.scope[name] && (member == "" || m.memberOf(c, name, member)) {
			return true
		}
	}
	isVariable := p.vars[head] && p.idents[name] && m.members[name]
	return isVariable && (member == "" || m.members[member])
}

// memberOf reports whether a declaration of a package has a member. It believes this of a variable, a
// constant or a function if any type has the member.
func (m *module) memberOf(p *pkg, name, member string) bool {
	if t := p.types[name]; t != nil {
		return m.typeHas(t, member, nil)
	}
	return m.members[member]
}

// hasMember reports whether a type of the package, or of any package if it has none of this name, has
// the member. name may also be a field, such as Limit in Key.Limit.Requests.
func (m *module) hasMember(p *pkg, name, member string) bool {
	t := p.types[name]
	if t == nil && !isUpper(member) {
		return true // a file, such as Makefile.am
	}
	if t != nil && m.typeHas(t, member, nil) {
		return true
	}
	for _, other := range m.types[name] {
		if t == nil && m.typeHas(other, member, nil) {
			return true
		}
	}
	return p.idents[name] && slices.ContainsFunc(m.fields[name], func(e embed) bool {
		return m.embedHas(e, member, nil) || e.name == "" && m.members[member]
	})
}

// typeHas reports whether a type has a member, or may get it from another module.
func (m *module) typeHas(t *goType, member string, visited []*goType) bool {
	if t.members[member] {
		return true
	}
	if slices.Contains(visited, t) {
		return false
	}
	return slices.ContainsFunc(t.embeds, func(e embed) bool { return m.embedHas(e, member, append(visited, t)) })
}

// embedHas reports whether the type at a place has a member.
func (m *module) embedHas(e embed, member string, visited []*goType) bool {
	if e.folder == "-" {
		return true
	}
	p := m.packages[e.folder]
	return p != nil && p.types[e.name] != nil && m.typeHas(p.types[e.name], member, visited)
}

// staleLinks returns the links [Name] in a line that name nothing of the package.
func staleLinks(p *pkg, line string) (stale []string) {
	for _, found := range linkPattern.FindAllStringSubmatch(line, -1) {
		if !p.idents[found[1]] {
			stale = append(stale, "["+found[1]+"]")
		}
	}
	return stale
}

// staleFiles returns the files in a line that the package does not have.
func staleFiles(p *pkg, line string) (stale []string) {
	for _, found := range filePattern.FindAllStringSubmatch(line, -1) {
		if !p.names[found[1]] {
			stale = append(stale, found[1])
		}
	}
	return stale
}

// staleWords returns the words in a line that are written like identifiers, but occur neither in the
// code of the package nor in a string of the module. before is the line before it in the same comment.
func (m *module) staleWords(p *pkg, before, line string) (stale []string) {
	if strings.HasPrefix(line, "//\t") || strings.HasPrefix(line, "// #") {
		return nil // code, a heading
	}
	named := func(word string) bool {
		one := strings.TrimSuffix(word, "s")
		return p.idents[word] || p.idents[one] || m.strings[word] || foreign[word] || foreign[one] ||
			m.inNamedPackage(before+line, word)
	}
	for _, found := range camelPattern.FindAllStringSubmatch(line, -1) {
		if !named(found[1]) {
			stale = append(stale, found[1])
		}
	}
	line = strings.TrimPrefix(line, "//")
	if len(before) > 2 {
		line = before[len(before)-1:] + line
	}
	for _, at := range midSentencePattern.FindAllStringIndex(line, -1) {
		word := wordPattern.FindString(line[at[0]+2:])
		if dotted := dottedPattern.FindString(line[at[0]+1:]); strings.HasPrefix(dotted, " "+word+".") {
			continue
		}
		if !named(word) {
			stale = append(stale, word)
		}
	}
	return stale
}

// inNamedPackage reports whether text says "package NAME" of a package that has the word.
func (m *module) inNamedPackage(text, word string) bool {
	for _, found := range packagePattern.FindAllStringSubmatch(text, -1) {
		for _, p := range m.byName[found[1]] {
			if p.idents[word] {
				return true
			}
		}
	}
	return false
}

// staleFirstWord returns the first word of a doc comment if it is written like an identifier but the
// package has no such identifier.
func staleFirstWord(p *pkg, doc *ast.CommentGroup, names []string) string {
	if doc == nil || len(names) == 0 {
		return ""
	}
	found := firstPattern.FindStringSubmatch(doc.Text())
	if found == nil || slices.Contains(names, found[1]) || p.idents[found[1]] {
		return ""
	}
	word, next := found[1], found[2]
	if foreign[word] {
		return ""
	}
	camel := strings.ContainsFunc(word[1:], isUpperRune) && strings.ContainsFunc(word, isLowerRune)
	if camel || isUpper(word) && !strings.HasSuffix(word, "s") && verbs[next] {
		return word
	}
	return ""
}

// isUpper reports whether a word starts with a capital letter.
func isUpper(word string) bool { return isUpperRune(rune(word[0])) }
func isUpperRune(r rune) bool  { return r >= 'A' && r <= 'Z' }
func isLowerRune(r rune) bool  { return r >= 'a' && r <= 'z' }
