// Package report writes a result for people: as the text block that vLLM's tool prints, and as an
// HTML page.
//
// The page is a template, one style sheet and one script next to a copy of uPlot, all embedded,
// under a policy that forbids the page to load anything. The script draws lines and axes, and
// plots.go determines their meaning. Tables are HTML, so the page can be read without the script.
// Text from a server or from another person's file cannot control a terminal or become script: the
// text block goes through proxy/front/plaintext, and the page through html/template.
package report
