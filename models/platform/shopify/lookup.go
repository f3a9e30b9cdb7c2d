package shopify

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"counterfoil/models"
)

// orderName is what a merchant may have an order's number look like: digits between a
// prefix and a suffix of the shop. What could end the search's quotes isn't among it.
var orderName = regexp.MustCompile(`^#?[\p{L}\p{N}][\p{L}\p{N} ._/#-]{0,48}$`)

// shortest is how many digits the platform's own ids have at least; what is shorter is
// an order's number.
const shortest = 10

// named answers the names under which the shop may know what a person typed, most
// likely first; none where it is the platform's own id or something else.
func named(typed string) []string {
	typed = strings.TrimSpace(typed)
	if !orderName.MatchString(typed) || strings.Contains(typed, "//") || len(plainID(typed)) >= shortest || !strings.ContainsAny(typed, "0123456789") {
		return nil
	}
	bare := strings.TrimPrefix(typed, "#")
	return []string{"#" + bare, bare}
}

// findQuery lists orders with their numbers.
const findQuery = listHead + "id name" + listTail

// mostFound is how many orders of one number are read at most.
const mostFound = 5

// Find looks for orders by their number.
func (a *Adapter) Find(ctx context.Context, typed string) ([]models.ObjectRef, error) {
	names := named(typed)
	if len(names) == 0 {
		return nil, nil
	}
	r, err := a.ask(ctx, findQuery, listVars(mostFound, "", "name:'"+names[0]+"' OR name:'"+names[1]+"'"), mostFound+2)
	if err != nil {
		return nil, err
	}
	page, err := r.page("")
	if err != nil {
		return nil, err
	}
	var refs []models.ObjectRef
	for _, raw := range page.nodes {
		var v struct {
			ID   leaf `json:"id"`
			Name leaf `json:"name"`
		}
		_ = json.Unmarshal(raw, &v)
		// A search may match loosely; only the number itself is what was typed.
		if typ, id := splitGID(v.ID.raw); typ == "Order" && (strings.EqualFold(v.Name.word(), names[0]) || strings.EqualFold(v.Name.word(), names[1])) {
			refs = append(refs, a.order(id))
		}
	}
	return refs, nil
}
