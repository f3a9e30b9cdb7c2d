// Counterfoil keeps the stub of every order: what the platforms said, what they say
// when asked, and what the shop's own record is.
package main

import (
	"os"

	"counterfoil/web/app"
)

func main() { os.Exit(app.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
