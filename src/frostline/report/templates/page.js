// Draws the charts. Expressions are interpreted and never compiled, so that the page's policy can forbid code from text.
(function () {
  "use strict";
  var source = document.getElementById("charts-json");
  if (source) {
    var given = JSON.parse(source.textContent);
    var dark = window.matchMedia("(prefers-color-scheme: dark)");
    var narrow = window.matchMedia("(max-width: 40rem)");
    var fitted = function (spec, room) {
      var copy = JSON.parse(JSON.stringify(spec));
      if (copy.facet && narrow.matches) copy.columns = 1;
      var chart = copy.spec || copy;
      if (copy.usermeta && copy.usermeta.fluid) {
        var beside = copy.facet ? Math.min(copy.columns || 2, 2) : 1;
        chart.width = Math.max(200, Math.min(copy.facet ? 400 : 720, (room - 100 * beside) / beside));
      }
      return copy;
    };
    var draw = function () {
      document.querySelectorAll(".chart").forEach(function (place) {
        var spec = fitted(given.specs[Number(place.dataset.figure)], place.parentElement.clientWidth);
        var config = Object.assign({}, given.themes[dark.matches ? "dark" : "light"], { background: "transparent" });
        vegaEmbed(place, spec, { actions: false, ast: true, renderer: "svg", config: config, tooltip: { theme: dark.matches ? "dark" : "light" } })
          .then(function () { place.dataset.drawn = "yes"; })
          .catch(function (error) { place.textContent = "The chart could not be drawn: " + error.message; });
      });
    };
    draw();
    dark.addEventListener("change", draw);
    narrow.addEventListener("change", draw);
  }
})();
