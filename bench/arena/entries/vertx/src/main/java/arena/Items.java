package arena;

import com.fasterxml.jackson.annotation.JsonInclude;
import java.util.List;

/** The things that the application has to show. Jackson makes their JSON. */
final class Items {
  record Rating(int score, int count) {}

  @JsonInclude(JsonInclude.Include.NON_NULL)
  record Item(
      int id, String name, String category, int price, int quantity, boolean active, List<String> tags, Rating rating, Integer total) {
    Item withTotal(int factor) {
      return new Item(id, name, category, price, quantity, active, tags, rating, price * quantity * factor);
    }
  }

  record Listed(List<Item> items, int count) {}

  record Page(List<Item> items, int total, int page, int limit) {}

  private Items() {}
}
