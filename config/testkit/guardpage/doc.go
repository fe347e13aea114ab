// Package guardpage provides memory for tests of code that reads through pointers, such as vector
// instructions. A read beyond the end of this memory hits an unreadable page and ends the test
// process. The package imports no other package of this module, so tests in any package can use it.
package guardpage
